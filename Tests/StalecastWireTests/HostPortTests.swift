import StalecastWire
import Testing

@Suite struct HostPortTests {
    @Test(arguments: [
        ("example.com", "example.com:8443"), ("127.0.0.1", "127.0.0.1:8443"), ("::1", "[::1]:8443"),
        ("fe80::1%eth0", "[fe80::1%eth0]:8443"),
    ])
    func onlyIPv6AddressesHaveBrackets(host: String, text: String) {
        #expect(HostPort.text(host, 8443) == text)
    }
}
