import NIOCore
import Synchronization

/// What one connection, and all of them together, may use.
package struct ConnectionLimits: Sendable {
    /// Bytes of a request line and its headers. Default 16 KiB.
    package var maxHeadBytes = 16 * 1024
    /// For a head to arrive. Default 10 s.
    package var headTimeout: Duration = .seconds(10)
    /// For a kept-alive connection's next request, and between two pieces of a body. Default 60 s.
    package var idleTimeout: Duration = .seconds(60)
    /// For a client to read an answer to its end. Default 30 s.
    package var writeStallLimit: Duration = .seconds(30)
    /// For the rest of a body once the daemon is stopping; then the request is refused. Default 5 s.
    package var drainTimeout: Duration = .seconds(5)
    /// Connections at once; more are answered with 503. Default 256.
    package var maxConnections = 256

    package init() {}
}

/// The connections that are open.
final class ConnectionCount: Sendable {
    private let open = Atomic(0)

    /// Counts `channel` until it closes, and tells how many there are with it.
    func add(_ channel: any Channel) -> Int {
        channel.closeFuture.whenComplete { _ in self.open.subtract(1, ordering: .relaxed) }
        return open.add(1, ordering: .relaxed).newValue
    }

    var current: Int { open.load(ordering: .relaxed) }
}
