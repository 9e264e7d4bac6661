import StalecastHTTP
import StalecastWire
import Testing

/// Tests what proxies say of their clients, in front of a connection and in a request.
@Suite struct ProxyTests {
    private static let signature: [UInt8] = Array("\r\n\r\n\0\r\nQUIT\n".utf8)

    private static func binary(
        _ command: UInt8 = 0x21, _ family: UInt8 = 0x11, _ rest: [UInt8] = [203, 0, 113, 7, 127, 0, 0, 1, 1, 2, 3, 4]
    ) -> [UInt8] {
        signature + [command, family, UInt8(rest.count >> 8), UInt8(rest.count & 255)] + rest
    }

    private func read(_ bytes: [UInt8]) -> ProxyHeader { bytes.withUnsafeBytes { ProxyHeader.read($0) } }

    @Test(
        arguments: [
            (binary(), "203.0.113.7"),
            (
                binary(
                    0x21, 0x21,
                    [0x20, 1, 0xD, 0xB8] + [UInt8](repeating: 0, count: 11) + [7] + [UInt8](repeating: 1, count: 20)),
                "2001:db8::7"
            ),
            (
                binary(
                    0x21, 0x21,
                    [UInt8](repeating: 0, count: 10) + [255, 255, 203, 0, 113, 7] + [UInt8](repeating: 1, count: 20)),
                "203.0.113.7"
            ),
            (
                binary(0x21, 0x11, [203, 0, 113, 7, 127, 0, 0, 1, 1, 2, 3, 4] + [UInt8](repeating: 4, count: 900)),
                "203.0.113.7"
            ),
            (binary(0x20, 0x00, []), nil), (binary(0x20, 0x11), nil), (binary(0x21, 0x00, []), nil),
            (binary(0x21, 0x31, [UInt8](repeating: 0, count: 216)), nil),
            (Array("PROXY TCP4 203.0.113.7 127.0.0.1 1 65535\r\n".utf8), "203.0.113.7"),
            (Array("PROXY TCP6 2001:db8::7 ::1 0 1\r\n".utf8), "2001:db8::7"), (Array("PROXY UNKNOWN\r\n".utf8), nil),
            (Array("PROXY UNKNOWN ffff:: ffff:: 1 2\r\n".utf8), nil),
        ] as [([UInt8], String?)])
    func aHeaderIsTakenWholeAndNothingBehindIt(_ bytes: [UInt8], _ source: String?) {
        let wanted = ProxyHeader.header(length: bytes.count, source: source.flatMap { IPAddress($0) })
        #expect(read(bytes) == wanted)
        #expect(read(bytes + Array("GET / HTTP/1.1\r\n\n\n".utf8)) == wanted)
        for count in 0..<bytes.count { #expect(read(Array(bytes.prefix(count))) == .incomplete) }
    }

    @Test(
        arguments: [
            Array("GET /v1/events HTTP/1.1\r\n".utf8), [0x16, 3, 1], binary(0x31), binary(0x22), binary(0x21, 0x12),
            binary(0x21, 0x22), binary(0x21, 0x11, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), binary(0x21, 0x21),
            signature + [0x21, 0x11, 0xFF, 0xFF], signature.dropLast() + [0x0B], Array("PROXY TCP4\r\n".utf8),
            Array("PROXY TCP4 203.0.113.7 127.0.0.1 1 2 \r\n".utf8),
            Array("PROXY TCP4 203.0.113.7  127.0.0.1 1 2\r\n".utf8),
            Array("PROXY TCP4 203.0.113.7 127.0.0.1 1 65536\r\n".utf8),
            Array("PROXY TCP4 203.0.113.7 127.0.0.1 +1 2\r\n".utf8),
            Array("PROXY TCP6 203.0.113.7 127.0.0.1 1 2\r\n".utf8), Array("PROXY TCP4 ::1 ::1 1 2\r\n".utf8),
            Array("PROXY TCP4 203.0.113.7 127.0.0.1 1 2\n".utf8), Array("PROXY \n".utf8),
            Array(("PROXY UNKNOWN " + String(repeating: "x", count: 94)).utf8), Array("proxy TCP4".utf8),
        ] as [[UInt8]])
    func whatIsNoHeaderIsInvalid(_ bytes: [UInt8]) { #expect(read(bytes) == .invalid) }

    // MARK: Requests

    private static func proxies(_ field: TrustedProxies.Field = .xForwardedFor) throws -> TrustedProxies {
        var proxies = TrustedProxies()
        proxies.networks = [try CIDR("10.0.0.0/8"), try CIDR("fd00::/8")]
        proxies.field = field
        return proxies
    }

    @Test(arguments: [
        (["203.0.113.7"], "203.0.113.7"), (["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        (["6.6.6.6", "203.0.113.7"], "203.0.113.7"), (["203.0.113.7, 10.2.2.2"], "203.0.113.7"),
        (["203.0.113.7", " 10.2.2.2\t,fd00::1"], "203.0.113.7"), (["203.0.113.7:4711"], "203.0.113.7"),
        (["[2001:db8::7]:4711"], "2001:db8::7"), (["2001:db8::7"], "2001:db8::7"),
        (["::ffff:203.0.113.7"], "203.0.113.7"),
        (["10.2.2.2, 10.3.3.3"], "10.2.2.2"), ([], "10.0.0.1"), ([""], "10.0.0.1"), (["unknown"], "10.0.0.1"),
        (["6.6.6.6, unknown, 10.2.2.2"], "10.2.2.2"), (["6.6.6.6, "], "10.0.0.1"), (["6.6.6.6, [1.2.3.4]"], "10.0.0.1"),
        (["6.6.6.6, [::1"], "10.0.0.1"), (["6.6.6.6, 0x7f.1"], "10.0.0.1"),
    ])
    func theLastWhoIsNoProxyIsTheClient(_ values: [String], _ client: String) throws {
        let proxy = try #require(IPAddress("10.0.0.1"))
        #expect(try Self.proxies().client(behind: proxy, saying: values).description == client)
    }

    @Test(arguments: [
        (["for=203.0.113.7;proto=https"], "203.0.113.7"), (["For=\"[2001:db8::7]:1\""], "2001:db8::7"),
        (["proto=http; for=203.0.113.7 ;by=10.0.0.1, for=10.2.2.2"], "203.0.113.7"),
        // A client's open quotation mark swallows nothing that the proxy wrote.
        (["for=6.6.6.6;by=\"", "for=203.0.113.7"], "203.0.113.7"),
        (["for=6.6.6.6;by=\", for=203.0.113.7"], "203.0.113.7"),
        (["for=6.6.6.6, for=_hidden"], "10.0.0.1"), (["for=6.6.6.6, for=\"1.2.3.4"], "10.0.0.1"),
        (["for=6.6.6.6, 203.0.113.7"], "10.0.0.1"),
    ])
    func theStandardsFieldSaysTheSame(_ values: [String], _ client: String) throws {
        let proxy = try #require(IPAddress("10.0.0.1"))
        #expect(try Self.proxies(.forwarded).client(behind: proxy, saying: values).description == client)
    }
}
