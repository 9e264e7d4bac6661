package import StalecastWire

/// Address to which a listener binds: an IPv4 address, an IPv6 address or a host name, and a port. Printed
/// `127.0.0.1:8080` or `[::1]:8080`.
package struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// Host without brackets.
    package let host: String
    /// 0–65535; 0 takes a free one.
    package let port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, `1.2.3.4:port` or `[ipv6]:port`; throws a sentence that says what is wrong.
    package init(parsing text: String) throws(InvalidValue) {
        guard let colon = text.lastIndex(of: ":") else {
            throw InvalidValue("\"\(text)\" has no port; write HOST:PORT, for example 127.0.0.1:8080")
        }
        host = try Self.host(text[..<colon])
        port = try Self.port(text[text.index(after: colon)...])
    }

    package var description: String { HostPort.text(host, port) }

    /// True if only this machine can connect: 127.0.0.0/8, `::1` (also as mapped IPv4) and `localhost`.
    package var isLoopback: Bool {
        guard let address = Self.address(host)?.canonical else { return host.lowercased() == "localhost" }
        return address.isIPv4 ? address.bytes[0] == 127 : address == IPAddress("::1")
    }

    private static func host(_ text: Substring) throws(InvalidValue) -> String {
        guard !text.isEmpty else {
            throw InvalidValue("the host is missing; write 0.0.0.0:PORT to listen on every address")
        }
        if text.hasPrefix("["), text.hasSuffix("]") {
            let inner = String(text.dropFirst().dropLast())
            if address(inner)?.isIPv4 == false { return inner }
            throw InvalidValue("\"\(inner)\" is not an IPv6 address")
        }
        if text.contains(":") { throw InvalidValue("an IPv6 address is written in brackets, for example [::1]:8080") }
        if address(String(text)) != nil || isHostName(text) { return String(text) }
        throw InvalidValue("\"\(text)\" is neither an IPv4 address nor a host name")
    }

    /// Digits only: `+8080` and ` 8080` are no ports.
    private static func port(_ text: Substring) throws(InvalidValue) -> Int {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(text), port <= 65_535 else {
            throw InvalidValue("\"\(text)\" is not a port; ports are 0 (take a free one) to 65535")
        }
        return port
    }

    /// RFC 1123 labels. A last label of digits only would be an IPv4 address written wrongly, such as `127.0.0.256`.
    private static func isHostName(_ text: Substring) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        let wellFormed = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
                && label.utf8.allSatisfy { $0 == 0x2D || $0.isASCIIAlphanumeric }
        }
        let endsInLetters = labels.last?.contains { !$0.isNumber } ?? false
        return wellFormed && endsInLetters && text.utf8.count <= 253
    }

    /// An address in a text; C would read no further than a NUL character.
    private static func address(_ text: String) -> IPAddress? { text.utf8.contains(0) ? nil : IPAddress(text) }
}
