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

    /// 15 KB of `a_a_a_…` took 5.8 ms before it was known who asks.
    @Test func readingAQueryTakesTimeInProportion() {
        func seconds(_ count: Int) -> Double {
            let query = String(repeating: "a_", count: count) + "=1"
            let clock = ContinuousClock()
            return (0..<5).map { _ in
                let time = clock.measure { _ = QueryParameters(query) }
                return Double(time.components.attoseconds) / 1e18 + Double(time.components.seconds)
            }.min() ?? 0
        }
        #expect(seconds(64_000) < 3 * 4 * seconds(16_000))
    }
}
