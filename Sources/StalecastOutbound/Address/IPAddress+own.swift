import CLinux
import Glibc
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
}
