import CEpoll
import Foundation
package import Logging
import ServiceLifecycle
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization
import UnixSignals

/// The running version.
package enum DaemonVersion {
    package static let text = "0.1.0"
}

/// The parts of a running daemon, for those that report on it.
struct DaemonParts: Sendable {
    let startedAt: Timestamp
    let scopes: [Scope]
    let store: TemplateStore
    let hub: Hub
    let served: ServedTemplates
    let edge: EdgeServer
    let webhooks: WebhookParts
    let sources: SourceParts
    let readiness: Readiness
}

/// The composition root: configuration → wiring → list of services.
package struct Daemon: Sendable {
    private let configuration: Configuration
    private let reload: @Sendable () throws(ConfigurationProblems) -> Configuration
    private let logger: Logger

    /// - Parameters:
    ///   - configuration: checked, as the loader made it.
    ///   - reload: loads it anew from the same sources, at SIGHUP.
    package init(
        configuration: Configuration, logger: Logger,
        reload: @escaping @Sendable () throws(ConfigurationProblems) -> Configuration
    ) {
        self.configuration = configuration
        self.reload = reload
        self.logger = logger
    }

    /// Serves until SIGTERM or SIGINT, then ends cleanly.
    ///
    /// - Throws: ``StartError`` and the store's and Edge's errors when it cannot start; ``StoreFailed`` when the store
    ///   failed while running. The process must then exit non-zero.
    package func run() async throws {
        let store = try openStore()
        defer { store.close() }
        let hub = try Self.makeHub(store, configuration)
        let served = Self.makeServed(store, configuration)
        let webhooks = try WebhookParts(configuration, store, logger)
        let delivery = webhooks.delivery
        let sources = try SourceParts(configuration, store: store, logger)
        store.setCommitHandler { stored in
            // Whoever hears of a version can fetch it.
            served.install(stored.template, stored.change)
            hub.announce(
                stored.change, fetchWindowMs: sources.herd.window(for: stored.change), at: stalecast_monotonic_ns())
            delivery.announce(stored.change)
        }
        webhooks.begin(try Self.storedChanges(store, configuration))
        let edge = try EdgeServer(
            options: configuration.edgeOptions(), settings: configuration.edgeSettings, hub: hub, served: served,
            logger: logger)
        let parts = DaemonParts(
            startedAt: .now(), scopes: configuration.scopes, store: store, hub: hub, served: served, edge: edge,
            webhooks: webhooks,
            sources: sources,
            readiness: Readiness(store: store, edge: edge, sources: sources))
        let started = Startup(configuration: configuration, logger: logger)
        let token = try TokenFile.load(directory: configuration.data, file: configuration.control.tokenFile)
        let control = try ControlService(parts, configuration, token, started, logger)
        // Ended in reverse: Control finishes its publishes before Edge ends the streams that hear of them.
        let webhookEnding = WebhookEnding()
        let services: [any Service] = [
            StoreWatch(store: store, logger: logger),
            StoreUpkeep(store: store),
            ReloadService(parts: parts, running: configuration, reload: reload, logger: logger),
            WebhookService(webhooks: webhooks, ending: webhookEnding),
            EdgeService(edge: edge, drain: configuration.shutdown.drain, started: started),
            webhookEnding,
            SourceService(sources: sources, edge: edge, hub: hub),
            control,
            ReadinessSwitch(readiness: parts.readiness, started: started),
        ]
        // At debug it prints whole services, with the secrets in their configuration.
        var discreet = logger
        discreet.logLevel = max(logger.logLevel, .info)
        var group = ServiceGroupConfiguration(
            services: services.map {
                .init(
                    service: $0, successTerminationBehavior: .gracefullyShutdownGroup,
                    failureTerminationBehavior: .gracefullyShutdownGroup)
            },
            gracefulShutdownSignals: [.sigterm, .sigint], logger: discreet)
        // Whatever hangs, the process is gone within 15 s.
        group.maximumGracefulShutdownDuration = .seconds(12)
        group.maximumCancellationDuration = .seconds(2)
        try await ServiceGroup(configuration: group).run()
        logger.info("stopped")
    }

    private func openStore() throws -> TemplateStore {
        let logger = logger
        return try TemplateStore.open(configuration.storeConfiguration) { notice in
            logger.log(notice)
        }
    }

    private static func makeHub(_ store: TemplateStore, _ configuration: Configuration) throws -> Hub {
        let changes = try storedChanges(store, configuration)
        let board = TopicBoard(
            epoch: store.epoch, head: store.head(), bindings: configuration.topicBindings, changes: changes)
        return Hub(board: board)
    }

    private static func storedChanges(
        _ store: TemplateStore, _ configuration: Configuration
    ) throws -> [TemplateChange] {
        try configuration.scopes.flatMap { try store.recentChanges(of: $0, limit: 300) }
    }

    private static func makeServed(_ store: TemplateStore, _ configuration: Configuration) -> ServedTemplates {
        let projects = configuration.projects.map {
            ServedTemplates.Project(id: $0.id, number: UInt64($0.number), namespaces: $0.namespaces)
        }
        let served = ServedTemplates(
            projects, elsewhere: configuration.servedElsewhere, version: DaemonVersion.text)
        for scope in configuration.scopes {
            if let current = store.currentTemplates[scope] { served.install(current.template, current.change) }
        }
        return served
    }
}

extension Logger {
    /// A store's notice as a line of ours.
    func log(_ notice: StoreNotice) {
        let level: Logger.Level =
            switch notice.level {
            case .info: .info
            case .warning: .warning
            case .error: .error
            }
        log(level: level, "\(notice.message)", metadata: notice.details.mapValues { .string($0) })
    }
}
