import CLinux
import Foundation
package import StalecastWire

/// Plan of `load webhooks`, decided before the first listener is made.
package struct WebhookPlan: Sendable {
    package let scope: Scope
    /// Webhooks that answer.
    package let receivers: Int
    /// Webhooks after those that never answer.
    package let blackHoles: Int
    /// `latest`, `all` or `fifo`, judged by the daemon.
    package let mode: String
    package let threads: Int

    package init(scope: Scope, receivers: Int, blackHoles: Int, mode: String, threads: Int) {
        (self.scope, self.receivers, self.blackHoles) = (scope, receivers, blackHoles)
        (self.mode, self.threads) = (mode, threads)
    }

    package var total: Int { receivers + blackHoles }

    /// Descriptors the rest of the process may need.
    private static let spareDescriptors = 128
    private static let backlog: Int32 = 128

    /// Listeners of one receiver each, on ports of the kernel's choice.
    /// - Throws: ``LoadProblem`` when descriptors or addresses do not suffice.
    package func listen() throws(LoadProblem) -> [Listener] {
        let limit = Int(clamping: stalecast_raise_descriptor_limit())
        // A listener and a connection each.
        guard 2 * total + Self.spareDescriptors <= limit else {
            throw LoadProblem(
                .refused, "\(total) receivers do not fit: this process may open \(limit) descriptors (ulimit -n)",
                advice:
                    "Raise the limit, or use --receivers \(max(0, (limit - Self.spareDescriptors) / 2 - blackHoles)).")
        }
        var listeners: [Listener] = []
        listeners.reserveCapacity(total)
        for index in 0..<total {
            let host = "127.100.\(index >> 8 & 255).\((index & 255))"
            let descriptor = stalecast_listen(host, 0, false, false, Self.backlog, 0, 0)
            guard descriptor >= 0 else {
                throw LoadProblem(.refused, "cannot listen on \(host): \(String(cString: strerror(errno)))")
            }
            let port = stalecast_local_port(descriptor)
            listeners.append(
                Listener(descriptor: descriptor, url: "http://\(host):\(port)/", answers: index < receivers))
        }
        return listeners
    }

    /// Address where one receiver listens.
    package struct Listener: Sendable {
        package let descriptor: Int32
        package let url: String
        /// False for a black hole.
        package let answers: Bool
    }
}
