/// Hosts that a listener answers for. A page can make its own name resolve to 127.0.0.1 (DNS rebinding); then it is of
/// one origin with servers there, and only the `Host` field tells. Addresses cannot be rebound, so they are
/// always accepted, and `localhost`, which browsers resolve by themselves.
package struct HostRule: Sendable, Equatable {
    /// Names in lower case, without ports; nil is any.
    private let names: Set<String>?

    package static let any = HostRule(names: nil)

    /// Only these names, beside addresses and `localhost`.
    package static func only(_ names: some Sequence<String>) -> HostRule {
        HostRule(names: Set(names.map { $0.lowercased() }))
    }

    private init(names: Set<String>?) { self.names = names }

    /// Result of comparing a `Host` field, or the authority of an absolute target, with the names.
    package enum Match: Sendable { case admitted, foreign, invalid }

    package func judge(_ authority: some StringProtocol) -> Match {
        var text = String(authority)
        return text.withUTF8 { judge($0) }
    }

    /// RFC 3986's host, and a port of up to five digits. An empty host is invalid: `http` has none (RFC 9110 §4.2.1).
    ///
    /// Takes bytes of one kind: other modules call it for every connection, and a generic form took a sixth of a
    /// connection's cost.
    package func judge(_ authority: UnsafeBufferPointer<UInt8>) -> Match {
        guard let host = Self.host(of: authority[...]), !host.isEmpty else { return .invalid }
        if host.first == UInt8(ascii: "[") { return Self.isBracketed(host) ? .admitted : .invalid }
        guard host.allSatisfy(Self.isNameByte) else { return .invalid }
        guard let names else { return .admitted }
        // Whatever ends in a number is an IPv4 address, or nothing (WHATWG URL, "ends in a number").
        if host.last.map(Self.isDigit) == true, host.allSatisfy({ Self.isDigit($0) || $0 == UInt8(ascii: ".") }) {
            return .admitted
        }
        var name = String(decoding: host, as: UTF8.self).lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        return name == "localhost" || names.contains(name) ? .admitted : .foreign
    }

    private typealias Bytes = Slice<UnsafeBufferPointer<UInt8>>

    /// Host without the port; nil when the part after the colon is not a port.
    private static func host(of authority: Bytes) -> Bytes? {
        guard let colon = authority.lastIndex(of: UInt8(ascii: ":")), authority.last != UInt8(ascii: "]") else {
            return authority
        }
        let port = authority[colon...].dropFirst()
        guard port.count <= 5, port.allSatisfy(isDigit) else { return nil }
        return authority[..<colon]
    }

    private static func isBracketed(_ host: Bytes) -> Bool {
        guard host.count > 3, host.last == UInt8(ascii: "]") else { return false }
        return host.dropFirst().dropLast().allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x46, 0x61...0x66, UInt8(ascii: ":"), UInt8(ascii: "."): true
            default: false
            }
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        // RFC 3986's unreserved and sub-delims, and percent encoding.
        case 0x21, 0x24...0x2E, 0x3B, 0x3D, 0x5F, 0x7E: true
        default: false
        }
    }
}
