import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import Testing

@Suite struct RequestHeadTests {
    private func head(
        _ uri: String = "/", _ fields: [(String, String)] = [("Host", "a")], version: HTTPVersion = .http1_1,
        method: HTTPMethod = .GET, hosts: HostRule = .any
    ) throws(GoogleError) -> RequestHead {
        try RequestHead(
            HTTPRequestHead(version: version, method: method, uri: uri, headers: HTTPHeaders(fields)), hosts: hosts)
    }

    private func status(_ body: () throws(GoogleError) -> RequestHead) -> Int? {
        do { _ = try body() } catch { return error.code }
        return nil
    }

    @Test(arguments: [
        ("http://h/v1/state?topic=A", "/v1/state", "topic=A"), ("HTTP://h:80", "/", ""), ("https://h?x", "/", "x"),
        ("/a?b#c", "/a", "b"), ("/a#b?c", "/a", ""), ("/a??b", "/a", "?b"),
    ])
    func absoluteTargetsAreUnderstood(uri: String, path: String, query: String) throws {
        let head = try head(uri)
        #expect(head.path == path)
        #expect(head.query == query)
    }

    @Test(arguments: [
        "healthz", "ftp://h/", "//h", "http:/x", "*", "/\u{e9}", "http://[::1/", "http:///x", "http://a b/",
    ])
    func otherTargetsAreRefused(uri: String) {
        if uri == "//h" {
            #expect(status { () throws(GoogleError) in try head(uri) } == nil)
        } else {
            #expect(status { () throws(GoogleError) in try head(uri) } == 400)
        }
    }

    @Test(arguments: [
        "", " ", "a b", "a/b", "a:b", "a:123456", "user@host", "[::1", "::1]", "[g]", "a\u{7f}", "a,b c",
    ])
    func anInvalidHostIsRefused(host: String) {
        #expect(status { () throws(GoogleError) in try head("/", [("Host", host)]) } == 400)
    }

    @Test(arguments: [
        "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "localhost", "LOCALHOST:1", "localhost.", "Edge.example",
    ])
    func addressesLocalhostAndNamesOfTheListAreAdmitted(host: String) throws {
        _ = try head("/", [("Host", host)], hosts: .only(["edge.example"]))
    }

    @Test(arguments: ["evil.example", "127.0.0.1.evil.example", "edge.example.evil", "localhost.evil", "1.2.3.4a"])
    func anotherHostIsMisdirected(host: String) {
        let rule = HostRule.only(["edge.example"])
        #expect(status { () throws(GoogleError) in try head("/", [("Host", host)], hosts: rule) } == 421)
        #expect(status { () throws(GoogleError) in try head("http://\(host)/", hosts: rule) } == 421)
        #expect(status { () throws(GoogleError) in try head("/", [("Host", host)]) } == nil)
    }

    @Test func theHostOfAnAbsoluteTargetWins() throws {
        _ = try head("http://127.0.0.1/", [("Host", "evil.example")], hosts: .only([]))
    }

    @Test func hostsAreCounted() {
        #expect(status { () throws(GoogleError) in try head("/", []) } == 400)
        #expect(status { () throws(GoogleError) in try head("/", [("Host", "a"), ("host", "a")]) } == 400)
        #expect(status { () throws(GoogleError) in try head("/", [], version: .http1_0) } == nil)
        #expect(status { () throws(GoogleError) in try head("/", [], version: .init(major: 2, minor: 0)) } == 505)
    }

    @Test(arguments: [
        [("Content-Length", "2"), ("Transfer-Encoding", "chunked")],
        [("Content-Length", "2"), ("Content-Length", "2")],
        [("Transfer-Encoding", "identity, chunked")], [("Transfer-Encoding", "gzip")], [("Content-Length", "+2")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")], [("Content-Length", "")],
    ])
    func ambiguousFramingIsRefused(fields: [(String, String)]) {
        #expect(status { () throws(GoogleError) in try head("/", [("Host", "a")] + fields) } == 400)
    }

    @Test func chunksAreHTTP11sOnly() {
        let fields = [("Host", "a"), ("Transfer-Encoding", "chunked")]
        #expect(status { () throws(GoogleError) in try head("/", fields, version: .http1_0) } == 400)
    }

    @Test func aLengthThatFitsNoNumberIsMoreThanAnyLimit() throws {
        let head = try head("/", [("Host", "a"), ("Content-Length", "99999999999999999999999")])
        #expect(head.framing == .length(.max))
    }

    @Test func http10EndsWithItsAnswerAndGetsNoContinue() throws {
        let fields = [("Host", "a"), ("Connection", "keep-alive"), ("Expect", "100-continue"), ("Content-Length", "2")]
        let old = try head("/", fields, version: .http1_0)
        #expect(!old.keepsAlive)
        #expect(!old.expectsContinue)
        let new = try head("/", fields)
        #expect(new.keepsAlive)
        #expect(new.expectsContinue)
        #expect(try !head("/", [("Host", "a"), ("Connection", "Upgrade, Close")]).keepsAlive)
    }

    /// RFC 9110 §5.5; the parser leaves the blanks at the end.
    @Test func blanksAroundAValueAreNoPartOfIt() throws {
        let fields = [("Host", "a"), ("Last-Event-ID", "1-2 \t"), ("X-Api-Key", "\t k "), ("A", "b c")]
        let head = try head("/", fields)
        #expect(head.headers.map(\.value) == ["a", "1-2", "k", "b c"])
        #expect(Credentials(head).apiKey == "k")
    }

    @Test(arguments: [
        ("FROBNICATE / HTTP/1.1\r\nHost: a", true), ("\r\nget /a?b HTTP/1.0\r\n", true),
        ("M-SEARCH * HTTP/1.1\r\n", true),
        ("GE(T / HTTP/1.1\r\n", false), ("G\0T / HTTP/1.1\r\n", false), ("GET\t / HTTP/1.1\r\n", false),
        (" GET / HTTP/1.1\r\n", false), ("G T / HTTP/1.1\r\n", false), ("BREW  HTTP/1.1\r\n", false), ("", false),
    ])
    func anUnknownMethodIsToldFromAMalformedOne(bytes: String, isWellFormed: Bool) {
        #expect(RequestHead.beginsWell(bytes.utf8) == isWellFormed)
    }
}
