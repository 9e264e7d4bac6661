/// A range of addresses, spelled `10.0.0.0/8`, `fd00::/8`, or a single address without a length.
package struct CIDR: Sendable, Hashable, CustomStringConvertible {
    package let base: IPAddress
    /// Leading bits that must match: 0 to 32, or 0 to 128.
    package let length: Int

    /// - Throws: ``InvalidValue`` that says what is wrong; bits beyond the length must be 0.
    package init(_ text: String) throws(InvalidValue) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let base = IPAddress(String(parts[0])) else {
            throw InvalidValue("\"\(text)\" is no address range; write for example 10.0.0.0/8, 127.0.0.1 or fd00::/8")
        }
        let most = base.bytes.count * 8
        guard let length = parts.count == 1 ? most : Int(parts[1]), (0...most).contains(length) else {
            throw InvalidValue("\"\(text)\": the length after / must be 0 to \(most)")
        }
        self.init(base: base, length: length)
        guard base.bytes == masked(base.bytes) else {
            let meant = IPAddress(bytes: masked(base.bytes)).map { "\($0)/\(length)" } ?? "another"
            throw InvalidValue("\"\(text)\" has bits beyond its length; did you mean \(meant)?")
        }
    }

    private init(base: IPAddress, length: Int) {
        self.base = base
        self.length = length
    }

    package var description: String { "\(base)/\(length)" }

    /// False for an address of the other family; an IPv4-mapped IPv6 address counts as IPv4.
    package func contains(_ address: IPAddress) -> Bool {
        let address = address.canonical
        return address.bytes.count == base.bytes.count && masked(address.bytes) == base.bytes
    }

    private func masked(_ bytes: [UInt8]) -> [UInt8] {
        bytes.enumerated().map { index, byte in
            let bits = min(8, max(0, length - index * 8))
            return bits == 0 ? 0 : byte & (0xFF << UInt8(8 - bits))
        }
    }
}
