import Foundation
import Logging
import StalecastEdge
import StalecastWire
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
    private let isUnwritten = Atomic(false)

    init(configuration: Configuration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
    }

    func edgeListens(on port: Int) { note { $0.edge = port } }
    func controlListens(on port: Int) { note { $0.control = port } }

    /// Nobody should look for this daemon any more.
    func withdraw() { endpoints(ports.withLock { $0 })?.remove() }

    /// Writes `endpoints.json` if that failed before: the disk was full, perhaps.
    func retry() {
        guard isUnwritten.load(ordering: .relaxed), let endpoints = endpoints(ports.withLock { $0 }) else { return }
        write(endpoints)
    }

    private func write(_ endpoints: Endpoints) {
        do {
            try endpoints.write()
            isUnwritten.store(false, ordering: .relaxed)
        } catch {
            let isNews = !isUnwritten.exchange(true, ordering: .relaxed)
            // A dead process's addresses would send the CLI astray.
            endpoints.remove()
            if isNews { logger.error("endpoints.json cannot be written yet", metadata: ["error": "\(error)"]) }
        }
    }

    private func note(_ change: (inout Ports) -> Void) {
        let ports = ports.withLock { ports in
            change(&ports)
            return ports
        }
        guard let endpoints = endpoints(ports) else { return }
        write(endpoints)
        logger.info(
            "listening",
            metadata: [
                "edge": "\(endpoints.edge)", "control": "\(endpoints.control)", "version": "\(DaemonVersion.text)",
                "data": "\(configuration.data)",
            ])
        if isatty(STDERR_FILENO) == 1 { FileHandle.standardError.write(Data(banner(endpoints).utf8)) }
        SystemdNotice.ready.send()
    }

    /// For the person who started this in a terminal.
    private func banner(_ endpoints: Endpoints) -> String {
        let data = URL(fileURLWithPath: configuration.data).path
        let projects = configuration.projects.map { project in
            "\(project.id) (\(project.namespaces.map(\.description).joined(separator: ", ")))"
        }
        return """

            Stalecast \(DaemonVersion.text)
              Edge      \(endpoints.edge), for clients
              Control   \(endpoints.control), token in \(configuration.control.tokenFile ?? data + "/control.token")
              projects  \(projects.joined(separator: ", "))
              data      \(data)
              Ctrl-C ends it; the data stays.


            """
    }

    private func endpoints(_ ports: Ports) -> Endpoints? {
        guard let edge = ports.edge, let control = ports.control else { return nil }
        return Endpoints(
            directory: configuration.data, edge: Endpoints.url(configuration.edge.listen.host, edge),
            control: Endpoints.url(configuration.control.listen.host, control))
    }
}
