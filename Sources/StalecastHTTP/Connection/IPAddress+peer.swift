import CLinux
package import NIOCore
package import StalecastWire

extension IPAddress {
    /// nil for an address of another family.
    package init?(_ address: SocketAddress?) {
        guard let text = address?.ipAddress else { return nil }
        self.init(text)
    }

    /// Address of a connected socket's other end; nil when it has none.
    package init?(peerOf fd: Int32) {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = stalecast_peer(fd, &bytes)
        self.init(bytes: Array(bytes.prefix(count)))
    }

    /// Key under which connections from one place are counted: an IPv4 address, an IPv6 network.
    package var key: UInt64 { stalecast_address_key_of(bytes, bytes.count) }

    package var isLoopback: Bool { stalecast_is_loopback_key(key) }
}
