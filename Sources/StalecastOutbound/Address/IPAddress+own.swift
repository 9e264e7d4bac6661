import CLinux
import Glibc
import StalecastWire
import Synchronization

extension IPAddress {
    private static let own = Mutex<(readAt: UInt64, addresses: Set<IPAddress>)>((0, []))
    /// Interfaces come and go; in nanoseconds.
    private static let freshness: UInt64 = 5_000_000_000

    /// Whether a network interface of this machine has it: a webhook must not make the daemon call what listens beside it,
    /// itself included, only because the address is public. Asked once per new connection; reads the interfaces every few
    /// seconds.
    var isOwn: Bool {
        let now = stalecast_monotonic_ns()
        return Self.own.withLock { own in
            if own.readAt == 0 || now - own.readAt > Self.freshness { own = (now, Self.readOwn()) }
            return own.addresses.contains(self)
        }
    }

    private static func readOwn() -> Set<IPAddress> {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return [] }
        defer { freeifaddrs(first) }
        var found: Set<IPAddress> = []
        var next = first
        while let entry = next {
            next = entry.pointee.ifa_next
            if let address = entry.pointee.ifa_addr.flatMap(IPAddress.init) { found.insert(address) }
        }
        return found
    }

    /// Nil for an address of another family.
    init?(_ socket: UnsafeMutablePointer<sockaddr>) {
        let raw = UnsafeRawPointer(socket)
        switch Int32(socket.pointee.sa_family) {
        case AF_INET:
            self.init(bytes: withUnsafeBytes(of: raw.loadUnaligned(as: sockaddr_in.self).sin_addr) { Array($0) })
        case AF_INET6:
            self.init(bytes: withUnsafeBytes(of: raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr) { Array($0) })
        default: return nil
        }
    }

    /// The address that resolvers make of `2130706433`, `0x7f.1` or `0177.0.0.1`.
    static func fromOldSpelling(_ text: String) -> IPAddress? {
        var address = in_addr()
        guard inet_aton(text, &address) == 1 else { return nil }
        return IPAddress(bytes: withUnsafeBytes(of: &address) { Array($0) })
    }
}
