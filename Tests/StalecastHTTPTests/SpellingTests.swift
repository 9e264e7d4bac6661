import StalecastHTTP
import StalecastWire
import Testing

@Suite struct SpellingTests {
    @Test(arguments: [
        ("etag-1-2", "etag-1-2"), ("\"etag-1-2\"", "etag-1-2"), ("W/\"etag-1-2\"", "etag-1-2"), (" \"a\" ", "a"),
        ("W/a", "a"), ("\"", "\""), ("", ""), ("*", "*"),
    ])
    func anETagIsReadWithAndWithoutQuotes(text: String, bare: String) {
        #expect(ETagSpelling.bare(text) == bare[...])
    }

    @Test func anIfNoneMatchNamesATag() {
        #expect(ETagSpelling.names("a", in: "W/\"a\""))
        #expect(ETagSpelling.names("a", in: "a"))
        #expect(!ETagSpelling.names("a", in: "*"))
        #expect(!ETagSpelling.names("a", in: nil))
    }

    @Test func percentEncodingIsStrict() {
        #expect(PercentEncoding.decode("a%3Ab%C3%A9") == "a:bé")
        #expect(PercentEncoding.decode("a+b") == "a+b")
        #expect(PercentEncoding.decode("a+b", plusIsBlank: true) == "a b")
        for broken in ["%", "%4", "%zz", "%FF"] { #expect(PercentEncoding.decode(broken) == nil) }
    }

    @Test func namesOfParametersMayBeSpelledWithUnderscores() throws {
        let query = QueryParameters("version_number=3&page_size=&a_b__c=1&$alt=json")
        #expect(try query.versionNumber("versionNumber") == 3)
        #expect(query["pageSize"] == nil)
        #expect(query["aBC"] == "1")
        #expect(QueryParameters("_=1&__=2&=3")["x"] == nil)
    }

    @Test func aParameterBeyondTheLastOneCountedIsIgnored() {
        let query = (0..<300).map { "p\($0)=\($0)" }.joined(separator: "&")
        #expect(QueryParameters(query)["p255"] == "255")
        #expect(QueryParameters(query)["p256"] == nil)
    }
}
