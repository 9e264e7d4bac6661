/// A host and a port as URLs and messages name them (RFC 3986 §3.2).
package enum HostPort {
    /// - Parameter host: a name or an address, an IPv6 address without brackets.
    /// - Returns: `host:port`, with brackets around an IPv6 address.
    package static func text(_ host: String, _ port: some BinaryInteger) -> String {
        host.utf8.contains(0x3A) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
