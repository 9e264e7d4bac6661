import StalecastSources
import StalecastWire
import Testing

@Suite struct JSONPointerTests {
    /// The document of RFC 6901 §5.
    private static let document = Result {
        try JSONValue.parse(
            Array(
                #"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#.utf8))
    }

    @Test(arguments: [
        ("/foo/0", #""bar""#), ("/foo/1", #""baz""#), ("/", "0"), ("/a~1b", "1"), ("/c%d", "2"), ("/e^f", "3"),
        ("/g|h", "4"), ("/i\\j", "5"), ("/k\"l", "6"), ("/ ", "7"), ("/m~0n", "8"), ("/foo", #"["bar","baz"]"#),
    ])
    func findsWhatTheStandardSays(pointer: String, expected: String) throws {
        #expect(try JSONPointer(pointer).value(in: Self.document.get())?.text() == expected)
    }

    @Test func theEmptyPointerIsTheWholeDocument() throws {
        let document = try Self.document.get()
        #expect(try JSONPointer("").value(in: document) == document)
        #expect(JSONPointer.whole.value(in: document) == document)
        #expect(JSONPointer.whole == (try JSONPointer("")))
    }

    @Test(arguments: [
        "/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/+1", "/foo/ 1", "/foo/1/x", "/bar", "/foo/", "//",
        "/foo/99999999999999999999999", "/m~0n/0", "/foo/٣",
    ])
    func findsNothingWhereNothingIs(pointer: String) throws {
        #expect(try JSONPointer(pointer).value(in: Self.document.get()) == nil)
    }

    @Test(arguments: ["foo", "foo/bar", "#/foo", "/a~", "/a~2", "/~~", " /foo", "/a/~x/b"])
    func refusesWhatIsNoPointerAndSaysWhatOneIs(text: String) {
        let error = #expect(throws: InvalidValue.self) { try JSONPointer(text) }
        #expect(error?.description.contains("begins with /") == true)
    }
}
