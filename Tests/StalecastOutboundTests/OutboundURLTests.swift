import StalecastOutbound
import StalecastWire
import Testing

@Suite struct OutboundURLTests {
    @Test(arguments: [
        ("https://example.com", "https", "example.com", 443, "/"),
        ("HTTP://Example.COM:8080/a/../b?c=d", "http", "example.com", 8080, "/b?c=d"),
        ("http://[2001:DB8::1]:81/x", "http", "2001:db8::1", 81, "/x"),
        ("http://2130706433/", "http", "127.0.0.1", 80, "/"),
    ])
    func partsAreAsLibcurlReadsThem(text: String, scheme: String, host: String, port: Int, path: String) throws {
        let url = try OutboundURL(text)
        #expect(url.scheme == scheme && url.host == host && url.port == port && url.path == path)
    }

    @Test(arguments: [
        "", "example.com", "ftp://example.com", "file:///etc/passwd", "gopher://x/", "javascript:alert(1)",
        "http://user@example.com/", "http://user:secret@example.com/", "http://example.com/#x", "http:///x",
        "http://a b/", "http://a/\r\nX: 1", "http://a/\u{0}", "http://exämple.com/", "http://[fe80::1%25eth0]/",
        "http://a:99999/", "http://a:x/", "http://" + String(repeating: "a", count: 2100),
    ])
    func whatCannotBeCalledIsRefusedWithAReason(text: String) {
        let error = #expect(throws: OutboundURL.Invalid.self) { try OutboundURL(text) }
        #expect(error?.description.isEmpty == false)
        #expect(error?.description.contains("secret") == false)
    }

    /// Advises what to write instead, which depends on the part.
    @Test(arguments: [
        ("https://münchen.example/x?token=geheim", "Punycode"), ("https://user:geheim@münchen.example", "Punycode"),
        ("http://a b/", "blanks or control characters in its host"), ("http://a/é b", "%C3%A9"),
        ("http://a?q=ü", "percent-encode"), ("http://a:99999/geheim", "HOST:PORT"),
    ])
    func whatIsNotASCIISaysWhichPart(text: String, words: String) {
        let error = #expect(throws: OutboundURL.Invalid.self) { try OutboundURL(text) }
        #expect(error?.description.contains(words) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("geheim") == false)
    }

    @Test(arguments: ["a b", "", "x:", "x\r", "é", String(repeating: "x", count: 129)])
    func headerNamesAreTokens(name: String) {
        #expect(throws: OutboundURL.Invalid.self) { try OutboundHeader(name, "v") }
    }

    @Test(arguments: ["a\r\nX: 1", "a\n", "\u{0}", "é", String(repeating: "x", count: 4097)])
    func headerValuesStayInTheirLine(value: String) {
        #expect(throws: OutboundURL.Invalid.self) { try OutboundHeader("x", value) }
    }

    @Test(arguments: ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/x", "10.0.0", "::/129", "x/8", ""])
    func rangesWithMistakesAreRefused(text: String) {
        #expect(throws: InvalidValue.self) { try CIDR(text) }
    }

    @Test func rangesContainWhatTheySay() throws {
        let range = try CIDR("172.16.0.0/12")
        #expect(range.contains(try #require(IPAddress("172.31.255.255"))))
        #expect(range.contains(try #require(IPAddress("::ffff:172.16.0.1"))))
        #expect(!range.contains(try #require(IPAddress("172.32.0.0"))))
        #expect(try CIDR("127.0.0.1").description == "127.0.0.1/32")
    }
}
