package import StalecastWire

/// Rule for the addresses to which requests may be sent: judged on the address that is really dialled, after name
/// resolution.
///
/// The ranges are those of the special-purpose address registries (RFC 6890 and its registry), with the metadata
/// services of clouds, which lie inside them, and Azure's 168.63.129.16, which does not.
package struct AddressPolicy: Sendable, Hashable {
    package enum Profile: String, Sendable, Hashable, CaseIterable {
        /// Only addresses of the public internet.
        case `public`
        /// Private networks (RFC 1918, ULA, CGNAT) as well; never loopback, link-local and metadata addresses.
        case `internal`
    }

    package let profile: Profile
    /// Ranges that are allowed whatever the profile says.
    package let allow: [CIDR]
    /// Ports of ``allow``'s addresses are free; all others must be one of these or at least 1024.
    package static let wellKnownPorts: Set<Int> = [80, 443]

    package init(profile: Profile = .public, allow: [CIDR] = []) {
        self.profile = profile
        self.allow = allow
    }

    package static let publicOnly = AddressPolicy()

    package func allows(_ address: IPAddress) -> Bool {
        if allow.contains(where: { $0.contains(address) }) { return true }
        let denied = profile == .public ? Self.deniedToPublic : Self.deniedToInternal
        guard address.isIPv4 || isGlobalUnicast(address) || profile == .internal && Self.local.contains(address) else {
            return false
        }
        return !denied.contains { $0.contains(address) }
    }

    /// True when an address and a port of it are allowed; see ``allows(_:)``.
    package func allows(_ address: IPAddress, port: Int) -> Bool {
        if allow.contains(where: { $0.contains(address) }) { return true }
        return allows(address) && (port >= 1024 || Self.wellKnownPorts.contains(port))
    }

    /// True when ``allows(_:port:)`` is, and the address is not one of this machine's that ``allow`` does not name.
    func allowsDialling(_ address: IPAddress, port: Int) -> Bool {
        if allow.contains(where: { $0.contains(address) }) { return true }
        return allows(address, port: port) && !address.isOwn
    }

    /// Everything outside 2000::/3 is denied by construction: loopback, mapped and compatible IPv4, NAT64, ULA,
    /// link-local, site-local, multicast, whatever their spelling.
    private func isGlobalUnicast(_ address: IPAddress) -> Bool { address.bytes[0] & 0xE0 == 0x20 }

    private static let deniedToPublic = ranges(
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
            + "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
            + "168.63.129.16/32 2001::/23 2001:db8::/32 2002::/16 3fff::/20")
    /// Ranges that stay denied when private networks are allowed; 100.100.100.200, fd00:ec2::254 (Amazon) and
    /// fd20:ce::254 (Google) are metadata services.
    private static let deniedToInternal = ranges(
        "0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 "
            + "198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32 100.100.100.200/32 "
            + "2001::/23 2001:db8::/32 2002::/16 3fff::/20 fd00:ec2::254/128 fd20:ce::254/128")
    /// Unique local addresses, RFC 4193.
    private static let local = ranges("fc00::/7")[0]

    private static func ranges(_ texts: String) -> [CIDR] {
        texts.split(separator: " ").map { text in
            do { return try CIDR(String(text)) } catch { preconditionFailure("\(error)") }
        }
    }
}
