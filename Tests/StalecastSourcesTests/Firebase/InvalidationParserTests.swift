import StalecastSources
import StalecastWire
import Testing

@Suite struct InvalidationParserTests {
    private static func parse(_ text: String, pieces: Int) throws -> [Invalidation] {
        var parser = InvalidationParser()
        let bytes = Array(text.utf8)
        var messages: [Invalidation] = []
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            messages += try parser.receive(bytes[start..<min(start + pieces, bytes.count)])
        }
        return messages
    }

    @Test(arguments: [1, 2, 3, 7, 1000])
    func readsLinesAndArraysHoweverTheyAreCut(pieces: Int) throws {
        let expected = [Invalidation(version: 7), Invalidation(version: 8, retryInterval: .seconds(60))]
        for text in [
            "\n\n{\"latestTemplateVersionNumber\":\"7\"}\n\n{\"latestTemplateVersionNumber\":8,\"retryIntervalSeconds\":60}\n",
            "[{\r\n\"latestTemplateVersionNumber\" : \"7\"\r\n}\r\n,\r\n"
                + "{\"latestTemplateVersionNumber\":\"8\",\"retryIntervalSeconds\":60}]",
        ] {
            #expect(try Self.parse(text, pieces: pieces) == expected)
        }
    }

    @Test func bracesInStringsAndInnerObjectsDoNotEndAMessage() throws {
        let text = #"{"x":"}{\"}","y":{"z":[{}]},"latestTemplateVersionNumber":"9"}"#
        #expect(try Self.parse(text, pieces: 3) == [Invalidation(version: 9)])
    }

    @Test(arguments: [
        ("{}", Invalidation()), (#"{"featureDisabled":true}"#, Invalidation(isDisabled: true)),
        (#"{"featureDisabled":false}"#, Invalidation()),
        (#"{"featureDisabled":"true"}"#, Invalidation(isDisabled: true)),
        (#"{"latestTemplateVersionNumber":-1}"#, Invalidation()),
        (#"{"latestTemplateVersionNumber":"x"}"#, Invalidation()),
        (#"{"latestTemplateVersionNumber":99999999999999999999}"#, Invalidation()),
        (#"{"retryIntervalSeconds":-5}"#, Invalidation(retryInterval: .zero)),
        (#"{"retryIntervalSeconds":999999}"#, Invalidation(retryInterval: .seconds(3600))),
    ])
    func readsEachMember(text: String, expected: Invalidation) throws {
        #expect(try Self.parse(text, pieces: 4) == [expected])
    }

    @Test(arguments: ["<html>", "nope", "{\"a\":}", "{\"a\" \"b\"}", "}{", "\u{0}", "data: {}"])
    func whatIsNoSuchStreamIsAnError(text: String) {
        #expect(throws: InvalidValue.self) { try Self.parse(text, pieces: 2) }
    }

    @Test func aMessageWithoutEndIsBounded() {
        #expect(throws: InvalidValue.self) {
            var parser = InvalidationParser()
            let first = try parser.receive(Array("{\"a\":\"".utf8))
            #expect(first.isEmpty)
            for _ in 0..<100 { #expect(try parser.receive([UInt8](repeating: 0x78, count: 1024)).isEmpty) }
        }
    }
}
