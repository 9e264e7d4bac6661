import CLinux
import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWire

/// Control as a service, over the other parts.
struct ControlService: Service {
    private let server: ControlServer
    private let address: ListenAddress

    func run() async throws {
        do {
            try await server.run()
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw StartError(
                "control cannot listen on \(address): another process uses that port; stop it or choose another with "
                    + "--control")
        } catch let error as IOError {
            throw StartError("control cannot listen on \(address): \(String(cString: strerror(error.errnoCode)))")
        }
    }

    init(
        _ parts: Daemon.Parts, _ configuration: Configuration, _ token: ControlToken, _ tally: ControlTally,
        _ started: Startup, _ logger: Logger
    ) throws(StartError) {
        address = configuration.control.listen
        var settings = ControlConfiguration(
            host: try configuration.control.listen.resolvedHost(), port: configuration.control.listen.port)
        settings.staleETagStatus = configuration.control.staleETagStatus
        settings.maxTemplateBytes = configuration.control.maxTemplateBytes
        settings.metricsWithoutToken = configuration.control.metricsWithoutToken
        settings.version = DaemonVersion.text
        // Idle strangers must leave descriptors for the rest of the daemon.
        let room = Int(stalecast_raise_descriptor_limit() / 4)
        settings.maxConnections = min(configuration.control.maxConnections, room)
        let namespaces = Dictionary(uniqueKeysWithValues: configuration.projects.map { ($0.id, $0.namespaces) })
        let control = Control(
            settings, token: token, store: parts.store, hub: parts.hub,
            webhooks: WebhookDesk(
                registry: parts.webhooks.registry, verifier: parts.webhooks.verifier,
                delivery: parts.webhooks.delivery, logger: logger),
            triggers: parts.sources.desk, tally: tally, namespaces: { namespaces[$0] ?? [] },
            feed: { parts.sources.feed(of: $0) },
            presence: { project in
                (await parts.edge.presence().counts[project] ?? [:]).mapValues { counts in
                    Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) })
                }
            },
            metrics: { await Self.metrics(parts, tally) }, status: { await StatusReport(daemon: parts).json() },
            readiness: { await parts.readiness.reasons() })
        server = ControlServer(control, eventLoopGroup: MultiThreadedEventLoopGroup.singleton) { port in
            started.controlListens(on: port)
        }
    }

    private static func metrics(_ parts: Daemon.Parts, _ requests: ControlTally) async -> String {
        var text = MetricsText()
        text.edge(parts.edge.tally, connections: parts.edge.connections, presence: await parts.edge.presence())
        text.fetches(parts.edge.tally.fetches, renderings: parts.served.renderings)
        await text.webhooks(parts.webhooks)
        text.sources(parts.sources)
        text.store(parts.store, canCommit: await parts.store.health.canCommit)
        text.control(requests)
        text.process(startedAt: parts.startedAt, version: DaemonVersion.text)
        return text.text
    }
}

extension MetricsText {
    fileprivate mutating func control(_ tally: ControlTally) {
        family(
            "stalecast_control_requests_total", .counter, "Requests to the private listener by operation and status.",
            tally.requests.map {
                ([("operation", $0.kind.operation), ("status", String($0.kind.status))], Double($0.count))
            })
    }
}
