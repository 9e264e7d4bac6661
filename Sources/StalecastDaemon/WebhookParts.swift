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
    /// Service that Control offers, whichever node delivers.
    let service: WebhookService
    private let part: Part

    /// Part of this daemon in delivery.
    private enum Part {
        /// A daemon outside a cluster, which delivers to all webhooks.
        case all
        /// A node, which delivers to the webhooks whose assignments it has.
        case assigned(WebhookAssignments, WebhookOwners)
        /// An edge calls no webhook.
        case none
    }

    /// Opens both databases and starts the engine's thread; blocks on files.
    ///
    /// - Throws: ``StartError`` with what to do about it.
    init(
        _ configuration: Configuration, _ store: TemplateStore, _ hub: Hub, _ membership: Membership?,
        _ descriptors: DescriptorBudget, _ logger: Logger
    ) throws {
        let registryFile = "\(configuration.data)/\(WebhookRegistry.fileName)"
        let deliveryFile = "\(configuration.data)/\(WebhookDelivery.fileName)"
        // Both files are made at the first start, so one without the other means that the other was taken away.
        let exists = FileManager.default.fileExists(atPath:)
        if !exists(registryFile), exists(deliveryFile) {
            logger.warning(
                "webhooks of API and command line are gone with their file; put it back, or restore a backup",
                metadata: ["file": "\(registryFile)"])
        } else if exists(registryFile), !exists(deliveryFile) {
            logger.warning(
                "attempts and dead letters of webhooks are gone with their file; each webhook is owed the newest version",
                metadata: ["file": "\(deliveryFile)"])
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
        engine = try OutboundEngine(configuration.outboundConfiguration(descriptors))
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
        delivery.attach(to: hub)
        let own = WebhookService(
            registry: registry, verifier: verifier, delivery: delivery, rollouts: hub.propagation, logger: logger)
        if let membership, !configuration.isEdge {
            let assignments = WebhookAssignments(
                membership, place: { Cursor(epoch: store.epoch, sequence: store.head()) }, registry, delivery, verifier)
            let owners = WebhookOwners(membership, assignments.delivery, own)
            part = .assigned(assignments, owners)
            service = own.asking(owners)
        } else {
            part = configuration.isEdge ? .none : .all
            service = own
        }
        try apply(configuration)
    }

    /// Begins to deliver what is owed, and lets delivery and verifier hear of every change of a webhook.
    ///
    /// - Parameter changes: the stored versions, oldest first within a scope.
    /// - Throws: when the delivery database cannot be read.
    func begin(_ changes: [TemplateChange]) throws {
        switch part {
        case .all: try beginAll(changes)
        case .assigned(let assignments, _): try assignments.begin(changes)
        // A data directory that was a core node's may have some.
        case .none: try delivery.start(webhooks: [], changes: [])
        }
    }

    private func beginAll(_ changes: [TemplateChange]) throws {
        let (delivery, verifier) = (delivery, verifier)
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

    /// Asks receivers for their consent and works on this node's assignments, until it is time to end; other nodes go on
    /// from there.
    func work(until ending: AsyncStream<Void>) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await verifier.run() }
            if case .assigned(let assignments, let owners) = part {
                group.addTask { await assignments.run() }
                group.addTask { await owners.run() }
            }
            for await _ in ending {}
            if case .assigned(let assignments, _) = part { await assignments.handOver(within: EndingStages.handOver) }
            group.cancelAll()
        }
    }

    /// Ends the attempts under way, and closes both databases.
    func end() async {
        delivery.stop()
        await engine.shutdown(grace: EndingStages.webhookAttempts)
        delivery.close()
        registry.close()
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
