import CLinux
import Foundation
package import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization

/// The running version.
package enum DaemonVersion {
    /// The release that this source is, or comes after.
    private static let release = "0.2.0"

    /// `0.2.0`; `0.2.0+git14.51b72f7` for a build between two releases, which deploy/install.sh made.
    package static let text = spelled(release, build: String(cString: stalecast_build()))

    /// The commit; empty for a plain `swift build`.
    package static let revision = String(cString: stalecast_revision())

    package static func spelled(_ release: String, build: String) -> String {
        build.isEmpty ? release : "\(release)+\(build)"
    }
}

/// The composition root: configuration → wiring → list of services.
package struct Daemon: Sendable {
    /// The parts of a running daemon, for those that report on it.
    struct Parts: Sendable {
        let startedAt: Timestamp
        let descriptors: DescriptorBudget
        let controlCapacity: ControlCapacity
        let scopes: [Scope]
        let access: Authorizer
        let audit: AuditLog
        let store: TemplateStore
        let hub: Hub
        let served: ServedTemplates
        let edge: EdgeServer
        let webhooks: WebhookParts
        let releases: ReleaseTally
        let releasePlans: [ReleasePlan]
        let sources: SourceParts
        /// nil: this daemon is one by itself.
        let cluster: ClusterParts?
        /// nil as well.
        let propagation: ClusterPropagation?
        let readiness: Readiness
        /// TLS of the listeners that have any.
        let tls: [ListenerTLS]
        let reloads: ReloadLog
    }

    private let configuration: Configuration
    private let reload: @Sendable () throws(ConfigurationProblems) -> Configuration
    private let logger: Logger
    private let signals: ProcessSignals

    /// - Parameters:
    ///   - configuration: checked, as the loader made it.
    ///   - reload: loads it anew from the same sources, at SIGHUP.
    package init(
        configuration: Configuration, logger: Logger, signals: ProcessSignals,
        reload: @escaping @Sendable () throws(ConfigurationProblems) -> Configuration
    ) {
        self.configuration = configuration
        self.reload = reload
        self.logger = logger
        self.signals = signals
    }

    /// Serves until SIGTERM or SIGINT, then ends cleanly.
    ///
    /// - Throws: ``StartError`` and the store's and Edge's errors when it cannot start; ``StoreFailed`` when the store
    ///   failed while running. The process must then exit non-zero.
    package func run() async throws {
        // Databases make their own files.
        umask(0o077)
        let logger = logger
        if signals.tracesCrashes {
            logger.warning(
                "SWIFT_BACKTRACE is on: a crash keeps ports, lock and streams until its trace is written, for seconds")
        }
        let descriptors = try DescriptorBudget.ofThisProcess(configuration.descriptorParts)
        sayWhatTheMachineAllows()
        let connection = try configuration.isClustered ? ClusterConnection(configuration, logger) : nil
        let opened: TemplateStore?
        if let connection { opened = try await connection.openStore(signals) } else { opened = try openStore() }
        // nil: told to end before there was anything to open.
        guard let store = opened else { return }
        defer { store.close() }
        let cluster = try connection.map { try ClusterParts($0, store, configuration, logger) }
        let hub = try Self.makeHub(store, configuration)
        try Self.resumePropagation(hub, store, configuration)
        cluster?.attach(hub)
        let served = Self.makeServed(configuration)
        let releases = ReleaseConductor(hub, served)
        for scope in configuration.scopes {
            guard let current = store.currentTemplates[scope] else { continue }
            let release = store.release(of: scope)
            let isSplit = release?.isSplitting(current.change) ?? false
            releases.restore(release, current, isSplit ? try await store.version(release?.base ?? 0, of: scope) : nil)
        }
        let webhooks = try WebhookParts(configuration, store, cluster?.nodes, descriptors, logger)
        webhooks.delivery.attach(to: hub)
        let sources = try SourceParts(configuration, descriptors.sources, store: store, logger)
        let versions = VersionLog(logger: logger)
        store.setCommitHandler { stored in
            // A client that hears of a version can fetch it.
            served.install(stored.template, stored.change)
            let topics = hub.announce(stored.change, at: stalecast_monotonic_ns())
            versions.announced(stored.change, on: topics)
        }
        let releaseTally = ReleaseTally()
        store.setReleaseHandler { step, stored in
            if let (change, topics) = releases.announce(step, of: stored, at: stalecast_monotonic_ns()) {
                versions.announced(change, on: topics)
            }
            step.release.log(logger)
            if let event = step.release.events.last { releaseTally.count(event) }
            if let (type, data) = step.release.notice {
                webhooks.delivery.announce(type, releaseIn: stored.scope.project, data)
            }
        }
        let registry = webhooks.registry
        let gates = GateProbes(webhooks.engine) { registry.policy(of: registry.rules.defaultProfile) }
        try webhooks.begin(store.settled(Self.storedChanges(store, configuration)))
        if !configuration.edge.listen.isLoopback, configuration.auth.mode == .off, configuration.edge.apiKeys.isEmpty {
            logger.warning("Edge serves whoever reaches it: auth.mode is off, and edge.apiKeys names no key")
        }
        let edgeTLS = try ListenerTLS("edge", configuration.edge.tls, isTLS13Only: false, logger)
        let controlTLS = try ListenerTLS("control", configuration.controlTLS, isTLS13Only: true, logger)
        let token = try TokenFile.load(directory: configuration.data, file: configuration.control.tokenFile)
        for warning in token.warnings { logger.warning("\(warning)") }
        if cluster != nil { ClusterPropagation.shareKeys(token.digest, store.epoch) }
        if let cluster { cluster.describe(try cluster.marks(of: configuration, token)) }
        let audit = try Self.openAudit(configuration, logger)
        defer { audit.mark() }
        let keeper = ReleaseKeeper(store: store, hub: hub, probes: gates, audit: audit, logger: logger)
        keeper.restore()
        let access = try Self.makeAccess(store, configuration, token)
        let edge = try EdgeServer(
            options: configuration.edgeOptions(tls: edgeTLS?.server, freshness: cluster),
            settings: configuration.edgeSettings(access, descriptors),
            hub: hub,
            served: served,
            logger: logger)
        access.observe { edge.accessChanged() }
        let startedAt = Timestamp.now()
        let tls = [edgeTLS, controlTLS].compactMap(\.self)
        let parts = Parts(
            startedAt: startedAt, descriptors: descriptors,
            controlCapacity: ControlCapacity(min(configuration.control.maxConnections, descriptors.control)),
            scopes: configuration.scopes, access: access, audit: audit, store: store, hub: hub,
            served: served,
            edge: edge,
            webhooks: webhooks,
            releases: releaseTally, releasePlans: configuration.releases, sources: sources,
            cluster: cluster,
            propagation: cluster.map {
                ClusterPropagation($0.nodes, hub.propagation, webhooks.delivery, configuration.scopes)
            },
            readiness: Readiness(store: store, edge: edge, sources: sources, cluster: cluster, tls: tls),
            tls: tls, reloads: ReloadLog(startedAt: startedAt))
        let started = Startup(configuration: configuration, logger: logger)
        let requests = ControlTally()
        let keySets = KeySetKeeper(configuration, access, descriptors.issuers, logger)
        keySets.readFiles()
        let hook = try HookAsker(configuration, access, descriptors.hook, logger)
        let refusals = RefusalLog(edge: edge, access: access, audit: audit, logger: logger)
        let control = try ControlService(parts, configuration, tls: controlTLS?.server, requests, started, logger)
        // Ended in reverse: Control finishes its publishes before Edge ends the streams that hear of them.
        let (endings, drain, signals) = (signals.endings, configuration.shutdown.drain, signals)
        let (webhookEnding, endWebhooks) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let services: [any Service] = [
            Work { try await parts.watchStore(logger) },
            Work {
                if let cluster { try await cluster.run(parts) } else { try? await gracefulShutdown() }
            },
            Work { await parts.sweepStore() },
            Work { await keeper.run() },
            Work { await parts.keepPropagation() },
            Work { await parts.keepCertificates() },
            Work { await parts.watchDescriptors(logger) },
            Work { await keySets.run() },
            Work {
                if let hook { await hook.run() } else { try? await gracefulShutdown() }
            },
            // Ends when the daemon is told to end, and with it everything else.
            Work { for await _ in endings.cancelOnGracefulShutdown() { return } },
            ReloadService(
                parts: parts, signals: signals.reloads, running: configuration, reload: reload,
                logger: logger),
            Work { await parts.deliverWebhooks(until: webhookEnding) },
            Work { try await parts.serveEdge(drain: drain, started) },
            // Counts subscribers, so it ends before Edge does.
            Work { await versions.run(counting: edge) },
            refusals,
            Work {
                // Cancelled or asked nicely: it is the end.
                try? await gracefulShutdown()
                endWebhooks.finish()
            },
            Work { await parts.watchSources() },
            control,
            Work { await parts.untilEnding(drain: drain, started, signals, logger) },
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
            logger: discreet)
        // The last resort is ProcessSignals, which needs no thread of the pool.
        group.maximumGracefulShutdownDuration = .seconds(12)
        try await ServiceGroup(configuration: group).run()
        logger.info("stopped")
    }

    /// Logs the findings of `stalecast doctor`, shortly.
    private func sayWhatTheMachineAllows() {
        for finding in SystemCheck(configuration).findings {
            let metadata: Logger.Metadata = ["finding": "\(finding.sentence)"]
            if let command = finding.command {
                logger.warning("machine", metadata: metadata.merging(["command": "\(command)"]) { $1 })
            } else if finding.subject == "descriptors" {
                logger.info("machine", metadata: metadata)
            }
        }
    }

    private func openStore() throws -> TemplateStore {
        let logger = logger
        return try TemplateStore.open(configuration.storeConfiguration) { notice in
            logger.log(notice)
        }
    }

    private static func openAudit(_ configuration: Configuration, _ logger: Logger) throws(StartError) -> AuditLog {
        let audit: AuditLog
        do throws(AuditLog.Problem) {
            audit = try AuditLog(directory: configuration.data, limits: configuration.audit)
        } catch {
            throw StartError("\(error)")
        }
        if let loss = audit.loss {
            logger.error("audit log does not go on where it ended", metadata: ["finding": "\(loss)"])
        }
        audit.write("daemon.start", ["version": .string(DaemonVersion.text)])
        audit.mark()
        let end = audit.end
        logger.info("audit log", metadata: ["lines": "\(end.count)", "hash": "\(end.hash)"])
        return audit
    }

    private static func makeAccess(
        _ store: TemplateStore, _ configuration: Configuration, _ token: TokenFile
    ) throws -> Authorizer {
        let access = Authorizer(bootstrap: configuration.control.tokenEnabled ? token.digest : nil)
        for record in try store.keyRecords() { access.put(try AccessKey(record: record)) }
        access.configure(configuration)
        return access
    }

    private static func makeHub(_ store: TemplateStore, _ configuration: Configuration) throws -> Hub {
        let changes = try storedChanges(store, configuration)
        let names = configuration.projects.flatMap { [($0.id.description, $0.id), (String($0.number), $0.id)] }
        var board = TopicBoard(
            epoch: store.epoch, head: store.head(), projects: Dictionary(names) { id, _ in id },
            bindings: configuration.topicBindings, changes: changes)
        for scope in configuration.scopes {
            ReleaseConductor.restore(&board, store.release(of: scope), store.currentTemplates[scope]?.change)
        }
        return Hub(
            board: board, herds: configuration.herdWindows, propagation: RolloutTracker(configuration.clients))
    }

    /// Versions whose way did not end before the process before this one did are counted from reconnects.
    private static func resumePropagation(
        _ hub: Hub, _ store: TemplateStore, _ configuration: Configuration
    ) throws {
        for scope in configuration.scopes {
            guard let change = store.currentTemplates[scope]?.change else { continue }
            let row = try store.propagationAtStart(of: scope, change.version)
            let stored = row.flatMap { RolloutStatus(record: $0.record, of: $0.version) }
            if let stored, stored.state != .spreading { continue }
            hub.propagation.resume(change, on: Set(hub.board.concerned(by: scope)), isStored: stored != nil)
        }
    }

    private static func storedChanges(
        _ store: TemplateStore, _ configuration: Configuration
    ) throws -> [TemplateChange] {
        try configuration.scopes.flatMap { scope in
            ReleaseConductor.lastTold(
                try store.recentChanges(of: scope, limit: 300), try store.recentReleases(of: scope))
        }
    }

    private static func makeServed(_ configuration: Configuration) -> ServedTemplates {
        let projects = configuration.projects.map {
            ServedTemplates.Project(
                id: $0.id, number: UInt64($0.number), namespaces: $0.namespaces,
                servesServerTemplate: $0.serverTemplateOnEdge)
        }
        return ServedTemplates(projects, elsewhere: configuration.servedElsewhere, version: DaemonVersion.text)
    }
}

extension Logger {
    /// A store's notice as a line of ours.
    func log(_ notice: TemplateStore.LogLine) {
        let level: Logger.Level =
            switch notice.level {
            case .info: .info
            case .warning: .warning
            case .error: .error
            }
        log(level: level, "\(notice.message)", metadata: notice.details.mapValues { .string($0) })
    }
}
