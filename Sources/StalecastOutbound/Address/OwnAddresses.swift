import CLinux
import Glibc
import Synchronization

/// The addresses of this machine's network interfaces: a webhook must not make the daemon call what listens beside it,
/// itself included, only because the address is public.
enum OwnAddresses {
    private static let known = Mutex<(readAt: UInt64, addresses: Set<IPAddress>)>((0, []))
    /// Interfaces come and go; in nanoseconds.
    private static let freshness: UInt64 = 5_000_000_000

    /// Asked once per new connection; reads the interfaces every few seconds.
    static func contains(_ address: IPAddress) -> Bool {
        let now = stalecast_monotonic_ns()
        return known.withLock { known in
            if known.readAt == 0 || now - known.readAt > freshness { known = (now, read()) }
            return known.addresses.contains(address)
        }
    }

    private static func read() -> Set<IPAddress> {
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
