package import StalecastWire

/// The first bytes of a connection that a proxy passes on, in either version of the PROXY protocol:
/// haproxy.org/download/2.9/doc/proxy-protocol.txt.
package enum ProxyHeader: Sendable, Equatable {
    /// The bytes so far may be the beginning of a header.
    case incomplete
    case invalid
    /// The header's own length in bytes, and the client. nil: the connection is the proxy's own, or its client is
    /// unknown.
    case header(length: Int, source: IPAddress?)

    /// Two IPv6 addresses and what TLVs proxies send are a tenth of it; it fits into the smallest limit of a head.
    package static let maxLength = 1024
    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let word = Array("PROXY ".utf8)
    /// The longest line of version 1, with its end.
    private static let maxLine = 107

    /// Reads the header at the beginning of `bytes`; ignores the bytes after it.
    package static func read(_ bytes: UnsafeRawBufferPointer) -> ProxyHeader {
        if bytes.prefix(signature.count).elementsEqual(signature.prefix(bytes.count)) { return readBinary(bytes) }
        return bytes.prefix(word.count).elementsEqual(word.prefix(bytes.count)) ? readLine(bytes) : .invalid
    }

    // MARK: Version 2

    /// Signature, version and command, family and transport, and the length of the rest.
    private static let fixedLength = 16

    private static func readBinary(_ bytes: UnsafeRawBufferPointer) -> ProxyHeader {
        guard bytes.count >= fixedLength else { return .incomplete }
        let rest = Int(bytes[14]) << 8 | Int(bytes[15])
        guard fixedLength + rest <= maxLength, let size = addressSize(command: bytes[12], family: bytes[13]),
            rest >= 2 * size + (size > 0 ? 4 : 0)
        else { return .invalid }
        guard bytes.count >= fixedLength + rest else { return .incomplete }
        return .header(
            length: fixedLength + rest, source: IPAddress(bytes: Array(bytes[fixedLength...].prefix(size)))?.canonical)
    }

    /// Size of each of the two addresses; 0 where the connection's own are meant, nil for what is no such header.
    private static func addressSize(command: UInt8, family: UInt8) -> Int? {
        switch (command, family) {
        // LOCAL, a check of the proxy's own; what follows means nothing.
        case (0x20, _): 0
        // UNSPEC, and UNIX stream sockets.
        case (0x21, 0x00), (0x21, 0x31): 0
        case (0x21, 0x11): 4
        case (0x21, 0x21): 16
        default: nil
        }
    }

    // MARK: Version 1

    private static func readLine(_ bytes: UnsafeRawBufferPointer) -> ProxyHeader {
        guard let end = bytes.prefix(maxLine).firstIndex(of: 0x0A) else {
            return bytes.count < maxLine ? .incomplete : .invalid
        }
        guard bytes[end - 1] == 0x0D else { return .invalid }
        let words = bytes[..<(end - 1)].split(separator: 0x20, omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        // Addresses behind UNKNOWN must be ignored (PROXY protocol, §2.1).
        if words.count > 1, words[1] == "UNKNOWN" { return .header(length: end + 1, source: nil) }
        guard words.count == 6, words[1] == "TCP4" || words[1] == "TCP6", words[4...].allSatisfy(isPort),
            let source = IPAddress(words[2]), let target = IPAddress(words[3]),
            source.isIPv4 == (words[1] == "TCP4"), target.isIPv4 == source.isIPv4
        else { return .invalid }
        return .header(length: end + 1, source: source.canonical)
    }

    private static func isPort(_ text: String) -> Bool {
        (1...5).contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) } && UInt16(text) != nil
    }
}
