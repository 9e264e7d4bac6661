import StalecastOutbound
import StalecastWire

extension OutboundURL {
    /// Reason why nothing can be at the host, the end of a sentence; nil for an address and a name that may exist.
    ///
    /// Names are as RFC 1123 has them, with underscores, which are in use, and hyphens anywhere. One that ends in a
    /// number is none (WHATWG's URL standard, "ends in a number"): resolvers take it for an address or refuse it.
    var hostProblem: String? {
        if addressLiteral != nil { return nil }
        let name = host.hasSuffix(".") ? host.dropLast() : host[...]
        guard name.utf8.count <= Self.maxNameBytes else {
            return "names a host of more than \(Self.maxNameBytes) characters"
        }
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.allSatisfy(\.isLabel) else {
            return
                "names no possible host: between its dots a name has 1 to \(Substring.maxLabelBytes) letters, digits, "
                + "hyphens and underscores"
        }
        if labels.last?.isNumber == true {
            return "names no possible host: a name does not end in a number, and an address has another form"
        }
        return nil
    }

    /// RFC 1035 §2.3.4, without the dot at the end.
    private static let maxNameBytes = 253
}

extension Substring {
    /// RFC 1035 §2.3.4.
    fileprivate static let maxLabelBytes = 63

    fileprivate var isLabel: Bool {
        (1...Self.maxLabelBytes).contains(utf8.count)
            && utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }

    /// Decimal or, after `0x`, hexadecimal.
    fileprivate var isNumber: Bool {
        utf8.allSatisfy { (0x30...0x39).contains($0) }
            || hasPrefix("0x")
                && dropFirst(2).utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }
}

extension AddressPolicy {
    /// Whether a name can lead to anything on this port: false when no address of it is ever called.
    func mayAllow(port: Int) -> Bool {
        // An address that is public beyond doubt, so that only the port is judged. Allowed ranges have all ports.
        guard let address = IPAddress("8.8.8.8") else { preconditionFailure("8.8.8.8 is an address") }
        return port > 0 && (!allow.isEmpty || allows(address, port: port))
    }
}
