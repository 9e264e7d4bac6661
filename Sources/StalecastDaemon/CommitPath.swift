import CLinux
import Logging
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Path of each version from its commit to its receivers: from the store to the served templates, the hub and the
/// webhooks, at once or in stages.
struct CommitPath {
    /// nil for a daemon outside a cluster.
    let cluster: ClusterParts?
    let hub: Hub
    let served: ServedTemplates
    let webhooks: WebhookParts
    let sources: SourceParts
    let versions: VersionLog
    let releases = ReleaseTally()
    /// nil for a daemon outside a cluster.
    let rollouts: SharedRollouts?
    private let gates: GateProbes

    init(
        _ store: TemplateStore, _ connection: ClusterConnection?, _ configuration: Configuration,
        _ descriptors: DescriptorBudget, _ audit: AuditLog, _ logger: Logger
    ) async throws {
        let hub = try Self.makeHub(store, configuration)
        self.hub = hub
        try Self.resumePropagation(hub, store, configuration)
        cluster = try connection.map { try ClusterParts($0, store, hub, configuration, logger) }
        served = Self.makeServed(configuration)
        let conductor = ReleaseConductor(hub, served)
        for scope in configuration.scopes {
            guard let current = store.currentTemplates[scope] else { continue }
            let release = store.release(of: scope)
            let isSplit = release?.isSplitting(current.change) ?? false
            conductor.restore(
                release, current, isSplit ? try await store.version(release?.base ?? 0, of: scope) : nil)
        }
        webhooks = try WebhookParts(configuration, store, hub, cluster?.nodes, descriptors, logger)
        sources = try SourceParts(configuration, descriptors.sources, store: store, audit, logger)
        versions = VersionLog(logger: logger)
        let (registry, engine) = (webhooks.registry, webhooks.engine)
        let delivery = webhooks.delivery
        delivery.onDisabled { webhook, reason in
            audit.write(
                "webhook.disable",
                [
                    "project": .string(webhook.project.description), "webhook": .string(webhook.id.description),
                    "reason": .string(reason),
                ])
        }
        rollouts = cluster.map { [hub] in
            SharedRollouts($0.nodes, hub.propagation, configuration.scopes) {
                await delivery.reach(of: $0, $1)
            } openRelease: { scope in
                store.release(of: scope).flatMap { $0.isOpen ? $0.version : nil }
            }
        }
        gates = GateProbes(engine) { registry.policy(of: registry.rules.defaultProfile) }
        handleCommits(of: store, conductor, logger)
        try webhooks.begin(configuration.scopes.flatMap { try store.webhookChanges(of: $0, limit: 300) })
        // The message of the version after an open release names that release's keys as well.
        for release in store.openReleases where !release.isWhole {
            if let change = store.currentTemplates[release.scope]?.change { webhooks.delivery.pass(over: change) }
        }
        if !configuration.edge.listen.isLoopback, configuration.auth.mode == .off, configuration.edge.apiKeys.isEmpty {
            logger.warning("Edge serves every client that reaches it: auth.mode is off, and edge.apiKeys names no key")
        }
    }

    /// Keeper of the open releases, with those that were open before the start. Make it before clients connect.
    func keeper(of store: TemplateStore, _ copies: AuditCopies, _ logger: Logger) -> ReleaseKeeper {
        let keeper = ReleaseKeeper(
            store: store, hub: hub, probes: gates, cluster: cluster, copies: copies,
            logger: logger)
        keeper.restore()
        return keeper
    }

    private func handleCommits(of store: TemplateStore, _ conductor: ReleaseConductor, _ logger: Logger) {
        let (hub, served, versions, webhooks, tally) = (hub, served, versions, webhooks, releases)
        store.setCommitHandler { stored in
            // Before the announcement, so that a client that hears of a version can fetch it.
            let former = served.install(stored.template, stored.change, ready: stored.ready)
            defer { withExtendedLifetime(former) {} }
            let topics = hub.announce(stored.change, at: stalecast_monotonic_ns())
            versions.announced(stored.change, on: topics)
        }
        store.setReleaseHandler { step, stored in
            if let (change, topics) = conductor.announce(step, of: stored, at: stalecast_monotonic_ns()) {
                versions.announced(change, on: topics)
            }
            step.release.log(logger)
            if let event = step.release.events.last { tally.count(event) }
            if let (type, data) = step.release.notice {
                webhooks.delivery.announce(type, releaseIn: stored.scope.project, data)
            }
        }
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

    /// Resumes versions that were spreading, or whose clients had left, when the previous process ended. Their clients
    /// are counted as they reconnect.
    private static func resumePropagation(
        _ hub: Hub, _ store: TemplateStore, _ configuration: Configuration
    ) throws {
        for scope in configuration.scopes {
            guard let change = store.currentTemplates[scope]?.change else { continue }
            let row = try store.propagationAtStart(of: scope, change.version)
            let stored = row.flatMap { RolloutStatus(record: $0.record, of: $0.version) }
            // Clients that left may come back.
            if let stored, stored.state != .spreading, stored.state != .left { continue }
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
