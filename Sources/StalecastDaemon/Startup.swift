import Foundation
import Logging
import StalecastWire
import Synchronization

/// Collects the ports really bound; when both listeners accept, says so to all that wait.
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

    /// Removes the file by which clients find this daemon.
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
        if endpoints.isThere {
            logger.notice("the previous run was killed or crashed", metadata: ["data": "\(configuration.data)"])
        }
        // The file comes before the message to systemd: units ordered after this one may look for it at once.
        write(endpoints)
        logger.info(
            "listening",
            metadata: [
                "edge": "\(endpoints.edge)", "control": "\(endpoints.control)", "version": "\(DaemonVersion.text)",
                "data": "\(configuration.data)",
            ])
        if logger.logLevel <= .info, isatty(STDERR_FILENO) == 1 { StandardError.write(banner(endpoints)) }
        SystemdMessage.ready.send()
    }

    /// Banner for the person who started this in a terminal.
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
            directory: configuration.data,
            edge: Endpoints.url(configuration.edge.tls, configuration.edge.listen.host, edge),
            control: Endpoints.url(configuration.controlTLS, configuration.control.listen.host, control))
    }

    /// `<data>/endpoints.json`: where this daemon really listens, for the CLI and for scripts. Written once both
    /// listeners accept, removed at a clean end.
    private struct Endpoints {
        let directory: String
        let edge: String
        let control: String

        private var path: String { "\(directory)/endpoints.json" }

        /// A run that ends in order removes the file.
        var isThere: Bool { access(path, F_OK) == 0 }

        func write() throws(StartError) {
            let document: JSONValue = [
                "edge": .string(edge), "control": .string(control),
                "pid": .int(ProcessInfo.processInfo.processIdentifier),
            ]
            try (document.text() + "\n").writePrivately(to: path)
            RuntimeDirectory.current?.share(path)
        }

        func remove() {
            unlink(path)
            RuntimeDirectory.current?.withdraw(path)
        }

        static func url(_ tls: Configuration.TLS, _ host: String, _ port: Int) -> String {
            let scheme = tls.pairs.isEmpty ? "http" : "https"
            // Every address of this machine: a client here asks one that it can dial.
            let host = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host
            return "\(scheme)://\(HostPort.text(host, port))"
        }
    }
}

/// Reason why the daemon cannot start; `description` is a sentence for the operator.
package struct StartError: Error, CustomStringConvertible {
    package let description: String
    /// 78 (`EX_CONFIG` of sysexits.h) when only a person can mend it, so that supervisors do not try again; else 1.
    package let exitStatus: Int32

    init(_ description: String, exitStatus: Int32 = 1) {
        self.description = description
        self.exitStatus = exitStatus
    }
}

/// Tells systemd about the daemon's state, as `sd_notify(3)` does; nothing happens without `NOTIFY_SOCKET`.
package enum SystemdMessage: String {
    case ready = "READY=1"
    case stopping = "STOPPING=1"
    case reloading = "RELOADING=1"
    case alive = "WATCHDOG=1"
    /// Sent before the program restarts within its process: until it is ready again, ``alive`` is not sent.
    case beginningAnew = "WATCHDOG_USEC=86400000000"

    package func send() {
        // `sun_path` has 108 bytes.
        guard let path = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"], path.utf8.count < 108 else { return }
        let socket = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        guard socket >= 0 else { return }
        defer { close(socket) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { room in
            room.copyBytes(from: path.utf8)
            // A leading @ is how the environment spells the abstract namespace.
            if path.hasPrefix("@") { room[0] = 0 }
        }
        // Names in the abstract namespace end with the address, not at a NUL (unix(7)).
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.utf8.count)
        var text = rawValue
        // Ends what ``beginningAnew`` began.
        if self == .ready, let usual = Watchdog.interval() { text += "\nWATCHDOG_USEC=\(usual)" }
        if self == .reloading { text += "\nMONOTONIC_USEC=\(DispatchTime.now().uptimeNanoseconds / 1000)" }
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = sendto(socket, text, text.utf8.count, Int32(MSG_NOSIGNAL), $0, length)
            }
        }
    }
}

/// Decides when systemd is told that the daemon is alive (`WatchdogSec`): three times in its interval.
package struct Watchdog {
    private let period: Duration?
    private var last: ContinuousClock.Instant?

    package init(_ environment: [String: String] = ProcessInfo.processInfo.environment) {
        period = Self.interval(environment).map { .microseconds($0) / 3 }
    }

    /// Microseconds without a sign of life after which systemd ends the process; nil where it does not watch this process.
    package static func interval(
        _ environment: [String: String] = ProcessInfo.processInfo.environment,
        process: Int32 = ProcessInfo.processInfo.processIdentifier
    ) -> Int64? {
        let isMeant = environment["WATCHDOG_PID"].map { $0 == String(process) } ?? true
        guard isMeant, let text = environment["WATCHDOG_USEC"], let interval = Int64(text), interval > 0 else {
            return nil
        }
        return interval
    }

    /// Whether to say so now. Never while something hangs.
    package mutating func isDue(_ isWell: Bool, at now: ContinuousClock.Instant = .now) -> Bool {
        guard isWell, let period, last.map({ now - $0 >= period }) ?? true else { return false }
        last = now
        return true
    }
}
