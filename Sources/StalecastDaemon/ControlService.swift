import CEpoll
import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastWire

/// Control as a service, given what it needs of the other parts.
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
        _ parts: DaemonParts, _ configuration: Configuration, _ token: TokenFile, _ started: Startup, _ logger: Logger
    ) throws(StartError) {
        address = configuration.control.listen
        var settings = ControlConfiguration(
            host: try HostAddress.resolve(configuration.control.listen.host), port: configuration.control.listen.port)
        settings.staleETagStatus = configuration.control.staleETagStatus == .conflict ? .conflict : .badRequest
        settings.maxTemplateBytes = configuration.control.maxTemplateBytes
        settings.metricsWithoutToken = configuration.control.metricsWithoutToken
        settings.version = DaemonVersion.text
        // Idle strangers must leave descriptors for the rest of the daemon.
        let room = Int(stalecast_raise_descriptor_limit() / 4)
        settings.connections.maxConnections = min(configuration.control.maxConnections, room)
        server = ControlServer(
            Self.dependencies(parts, configuration, token, logger), configuration: settings,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger,
            onBound: { _, port in started.controlListens(on: port) })
    }

    private static func dependencies(
        _ parts: DaemonParts, _ configuration: Configuration, _ token: TokenFile, _ logger: Logger
    ) -> ControlDependencies {
        let namespaces = Dictionary(uniqueKeysWithValues: configuration.projects.map { ($0.id, $0.namespaces) })
        let webhooks = WebhookCommands(
            registry: parts.webhooks.registry, verifier: parts.webhooks.verifier,
            delivery: DeliveryAccess(parts.webhooks.delivery), logger: logger)
        var dependencies = ControlDependencies(
            store: parts.store, token: StalecastControl.ControlToken(sha256: token.digest),
            namespaces: { namespaces[$0] ?? [] },
            topics: { summaries(parts.hub.board) },
            presence: {
                await parts.edge.presence().counts.mapValues { counts in
                    Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) })
                }
            },
            send: { parts.hub.send(DataMessage(target: SendTarget($0.target), data: $0.data)) },
            metrics: { await metrics(parts) },
            status: { await StatusReport(daemon: parts).json() },
            readiness: { parts.readiness.reasons() })
        dependencies.webhooks = webhooks.answer
        dependencies.triggers = TriggerDependencies(parts.sources.desk)
        dependencies.feed = { parts.sources.feed(of: $0) }
        return dependencies
    }

    private static func summaries(_ board: TopicBoard) -> [TopicSummary] {
        board.names.compactMap { board.index(of: $0) }.map { index in
            let binding = board[index].binding
            return TopicSummary(name: binding.name, scopes: binding.scopes, keys: binding.keys)
        }
    }

    private static func metrics(_ parts: DaemonParts) async -> String {
        var text = MetricsText()
        text.edge(parts.edge.tally, connections: parts.edge.connections, presence: await parts.edge.presence())
        text.fetches(parts.edge.tally.fetches, renderings: parts.served.renderings)
        await text.webhooks(parts.webhooks)
        text.sources(parts.sources)
        text.store(parts.store)
        text.process(startedAt: parts.startedAt, version: DaemonVersion.text)
        return text.text
    }
}

extension SendTarget {
    init(_ target: SentMessage.Target) {
        switch target {
        case .topic(let name): self = .topic(name)
        case .condition(let condition): self = .condition(condition)
        }
    }
}
