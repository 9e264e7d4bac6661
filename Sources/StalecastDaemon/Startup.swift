import Foundation
import Logging
import StalecastEdge
import Synchronization

/// Collects the ports really bound; when both listeners accept, says so to everybody who waits.
final class Startup: Sendable {
    private struct Ports {
        var edge: Int?
        var control: Int?
    }

    private let configuration: Configuration
    private let logger: Logger
    private let ports = Mutex(Ports())

    init(configuration: Configuration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
    }

    func edgeListens(on port: Int) { note { $0.edge = port } }
    func controlListens(on port: Int) { note { $0.control = port } }

    /// Nobody should look for this daemon any more.
    func withdraw() { endpoints(ports.withLock { $0 })?.remove() }

    private func note(_ change: (inout Ports) -> Void) {
        let ports = ports.withLock { ports in
            change(&ports)
            return ports
        }
        guard let endpoints = endpoints(ports) else { return }
        do {
            try endpoints.write()
        } catch {
            logger.error("endpoints.json cannot be written", metadata: ["error": "\(error)"])
        }
        logger.info("listening", metadata: ["edge": "\(endpoints.edge)", "control": "\(endpoints.control)"])
        SystemdNotice.ready.send()
    }

    private func endpoints(_ ports: Ports) -> Endpoints? {
        guard let edge = ports.edge, let control = ports.control else { return nil }
        return Endpoints(
            directory: configuration.data, edge: Endpoints.url(configuration.edge.listen.host, edge),
            control: Endpoints.url(configuration.control.listen.host, control))
    }
}
