import Foundation
import Logging
import StalecastControl
import StalecastHub
import StalecastOutbound
import StalecastRecords
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Everything about webhooks that is made at start, before anything runs.
struct WebhookParts: Sendable {
    let registry: WebhookRegistry
    let engine: OutboundEngine
    let delivery: WebhookDelivery
    let verifier: WebhookVerifier
    /// nil: this daemon is one by itself, or an edge.
    let shared: WebhookAssignments?
    /// Access to how delivery goes, whichever node is asked; nil: this daemon is one by itself, or an edge.
    let owners: WebhookOwners?
    /// This node calls no webhook.
    private let isEdge: Bool

    /// Opens both databases and starts the engine's thread; blocks on files.
    ///
    /// - Throws: ``StartError`` with what to do about it.
    init(
        _ configuration: Configuration, _ store: TemplateStore, _ nodes: Membership?, _ descriptors: DescriptorBudget,
        _ logger: Logger
    ) throws {
        let registryFile = "\(configuration.data)/\(WebhookRegistry.fileName)"
        let deliveryFile = "\(configuration.data)/\(WebhookDelivery.fileName)"
        // Both files are made at the first start, so one without the other means that the other was taken away.
        let exists = FileManager.default.fileExists(atPath:)
        if !exists(registryFile), exists(deliveryFile) {
            logger.warning(
                "webhooks of API and command line are gone with their file; put it back, or restore a backup",
                metadata: ["file": "\(registryFile)"])
        }
        do {
            registry = try WebhookRegistry(
                directory: configuration.data, keyFile: configuration.webhooks.keyFile,
                rules: configuration.webhookRules, maxPerProject: configuration.webhooks.maxPerProject)
        } catch let problem as VaultKey.Problem {
            throw StartError("webhooks: \(problem)")
        } catch {
            throw StartError("\(registryFile) cannot be opened: \(error.databaseWords)")
        }
        engine = try OutboundEngine(configuration.outboundConfiguration(descriptors), logger: logger)
        let formatter = WebhookFormatter(
            registry: registry, epoch: store.epoch, identity: configuration.senderIdentity, engine: engine)
        verifier = WebhookVerifier(registry: registry, formatter: formatter, engine: engine)
        do {
            delivery = try WebhookDelivery(
                configuration.deliveryConfiguration(descriptors), epoch: store.epoch, engine: engine,
                formatter: formatter,
                routes: configuration.effectiveTopics, history: { store.changes(of: $0, after: $1, limit: $2, logger) },
                logger: logger)
        } catch {
            throw StartError("\(deliveryFile) cannot be opened: \(error.databaseWords)")
        }
        isEdge = configuration.isEdge
        let nodes = isEdge ? nil : nodes
        shared = nodes.map { [registry, delivery, verifier] in
            WebhookAssignments(
                $0.informer, $0.assignments, place: { Cursor(epoch: store.epoch, sequence: store.head()) }, registry,
                delivery, verifier)
        }
        let service = WebhookService(registry: registry, verifier: verifier, delivery: delivery, logger: logger)
        if let nodes, let shared {
            owners = WebhookOwners(nodes.informer, nodes.assignments, nodes.peerRequests, shared.delivery, service)
            nodes.setWebhooks(shared.worker, WebhookAssignments.names)
        } else {
            owners = nil
        }
        try apply(configuration)
    }

    /// Begins to deliver what is owed, and lets delivery and verifier hear of every change of a webhook.
    ///
    /// - Parameter changes: the stored versions, oldest first within a scope.
    /// - Throws: when the delivery database cannot be read.
    func begin(_ changes: [TemplateChange]) throws {
        let (delivery, verifier) = (delivery, verifier)
        if let shared { return try begin(changes, shared) }
        // A data directory that was a core node's may have some.
        if isEdge { return try delivery.start(webhooks: [], changes: []) }
        registry.observe { change in
            switch change {
            case .installed(let webhook):
                delivery.install(webhook)
                verifier.consider(webhook)
            case .removed(let id): delivery.remove(id)
            }
        }
        let webhooks = registry.webhooks
        try delivery.start(webhooks: webhooks, changes: changes)
        for webhook in webhooks { verifier.consider(webhook) }
    }

    /// Begins delivery on one node of several.
    private func begin(_ changes: [TemplateChange], _ shared: WebhookAssignments) throws {
        registry.observe { shared.take($0) }
        let webhooks = registry.webhooks
        try delivery.start(webhooks: [], changes: changes, others: Set(webhooks.map(\.id)))
        shared.delivery.begin(with: webhooks)
    }

    /// Takes over what a reload can change: rules, allowed addresses, the webhooks of the file with their secrets.
    ///
    /// - Throws: ``StartError``; then the webhooks stay as they were.
    func apply(_ configuration: Configuration) throws(StartError) {
        let configured = try configuration.configuredWebhooks()
        let before = (rules: registry.rules, maxPerProject: registry.maxPerProject)
        registry.setRules(configuration.webhookRules, maxPerProject: configuration.webhooks.maxPerProject)
        do {
            try registry.setConfigured(configured)
        } catch {
            registry.setRules(before.rules, maxPerProject: before.maxPerProject)
            throw StartError("webhooks: \(error)")
        }
    }
}

extension Configuration {
    fileprivate func outboundConfiguration(_ budget: DescriptorBudget) -> OutboundConfiguration {
        // Attempts that take long do not count as in flight for delivery, but need a place here.
        OutboundConfiguration(
            maxInFlight: min(6 * webhooks.maxInFlight, budget.outboundRequests), maxLookups: min(256, budget.lookups),
            keptConnections: budget.keptConnections, keptHandles: 4096, threadName: "webhooks")
    }

    fileprivate func deliveryConfiguration(_ budget: DescriptorBudget) -> DeliveryConfiguration {
        DeliveryConfiguration(
            path: "\(data)/\(WebhookDelivery.fileName)",
            maxInFlight: min(webhooks.maxInFlight, max(4, budget.outboundRequests / 3)),
            disableAfter: webhooks.disableAfter, attemptRetention: webhooks.attemptRetention,
            deadLetterRetention: webhooks.deadLetterRetention)
    }
}

extension TemplateStore {
    /// A scope's stored changes after a sequence, oldest first, at most `limit`. Blocks; what cannot be read is left
    /// out.
    fileprivate func changes(
        of scope: Scope, after sequence: CommitSequence, limit: Int, _ logger: Logger
    ) -> [TemplateChange] {
        do {
            return try webhookChanges(of: scope, after: sequence, limit: limit)
        } catch {
            logger.error("versions for webhooks cannot be read", metadata: ["error": "\(error)", "scope": "\(scope)"])
            return []
        }
    }
}
