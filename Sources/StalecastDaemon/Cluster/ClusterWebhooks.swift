import Foundation
import StalecastControl
import StalecastRecords
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization

/// Webhooks of a cluster: all nodes know all of them, and one delivers to each.
final class ClusterWebhooks: Sendable {
    let delivery: AssignedDelivery
    private let peerRequests: WebhookPeerRequests
    private let nodes: ClusterNodes
    private let registry: WebhookRegistry
    private let verifier: WebhookVerifier
    /// Records there are, as far as they were told.
    private let known = Mutex<Set<String>>([])

    private static let kind = "webhook"
    /// Webhooks are spread over so many assignments; all nodes must agree.
    private static let count: UInt64 = 64
    private static let prefix = "webhooks-"
    /// A stop waits so long for attempts under way.
    private static let patience = Duration.seconds(5)

    /// - Parameters:
    ///   - verifier: asks receivers for their consent, for the webhooks whose assignment this node has.
    ///   - desk: speaks for this node alone.
    init(
        _ nodes: ClusterNodes, _ store: TemplateStore, _ registry: WebhookRegistry, _ delivery: WebhookDelivery,
        _ verifier: WebhookVerifier, _ service: WebhookService
    ) {
        self.nodes = nodes
        self.registry = registry
        self.verifier = verifier
        let assignments = nodes.assignments
        let assignedDelivery = AssignedDelivery(
            delivery, epoch: store.epoch,
            AssignedDelivery.Storage(
                assignment: { Self.assignment(of: $0) }, permits: { assignments.permit($0, $1) != nil },
                keep: { try await assignments.keep($0, of: $1, token: $2) },
                kept: { try await assignments.kept(of: $0) }))
        self.delivery = assignedDelivery
        peerRequests = WebhookPeerRequests(nodes: nodes, delivery: assignedDelivery, service: service)
        registry.share(Self.shared(nodes.board, store))
        nodes.setWebhooks(worker, Set((0..<Self.count).map { Self.name($0) }))
    }

    /// Access to how delivery goes, whichever node is asked.
    var owners: WebhookOwners { peerRequests.owners }

    // MARK: AssignmentService

    /// Duty of a webhook, by FNV-1a of its id.
    static func assignment(of webhook: WebhookID) -> String {
        let start: UInt64 = 0xCBF2_9CE4_8422_2325
        return name(webhook.description.utf8.reduce(start) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 } % count)
    }

    private static func name(_ number: UInt64) -> String { "\(prefix)\(number < 10 ? "0" : "")\(number)" }

    private var worker: AssignmentService.Worker {
        AssignmentService.Worker(
            begin: { [self] assignment, token in
                delivery.begin(assignment, token)
                for webhook in registry.webhooks where Self.assignment(of: webhook.id) == assignment {
                    verifier.consider(webhook)
                }
            }, finish: { [self] assignment, token in await delivery.finish(assignment, token) },
            lost: { [self] assignment in delivery.lost(assignment) })
    }

    /// A webhook was made, changed or removed, on this node or another.
    func take(_ change: WebhookRegistry.Change) {
        delivery.take(change)
        if case .installed(let webhook) = change, nodes.assignments.owned(Self.assignment(of: webhook.id)) != nil {
            verifier.consider(webhook)
        }
    }

    // MARK: Records

    private static func shared(_ board: Informer, _ store: TemplateStore) -> SharedWebhooks {
        SharedWebhooks {
            Cursor(epoch: store.epoch, sequence: store.head())
        } change: { id, sealed, revision in
            let name = RecordName(kind, id)
            let outcome: RecordOutcome
            if let sealed {
                outcome = try await board.put(Array(sealed), to: name, over: revision)
            } else {
                outcome = try await board.remove(name, at: revision ?? 0)
            }
            if case .done = outcome { return true }
            return false
        }
    }

    private func hear(_ change: Informer.Change) {
        switch change {
        case .put(let record):
            _ = known.withLock { $0.insert(record.name.id) }
            registry.mirror(record.name.id, Data(record.value), revision: record.revision)
        case .removed(let name):
            _ = known.withLock { $0.remove(name.id) }
            registry.mirror(name.id, nil, revision: 0)
        case .complete: registry.mirroredAll(known.withLock { $0 })
        }
    }

    /// Webhooks that were made before there was a cluster, once all others are known.
    private func shareOwn() async {
        // Cancelled: the daemon ends.
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            guard await nodes.board.isRead else { continue }
            // If it is not done, it is tried again.
            if (try? await registry.shareOwn()) != nil { return }
        }
    }

    // MARK: While the daemon runs

    /// Works until its task is cancelled; ``handOver()`` first.
    func run() async {
        await nodes.board.observe(Self.kind) { [self] in hear($0) }
        await withDiscardingTaskGroup { group in
            group.addTask { await self.delivery.run() }
            group.addTask { [peerRequests, nodes] in await nodes.peerRequests.run { await peerRequests.answer($0) } }
            group.addTask { await self.shareOwn() }
        }
    }

    /// Gives the assignments to other nodes, and returns when that is done, or took too long.
    func handOver() async {
        nodes.endWebhooks()
        let end = ContinuousClock.now + Self.patience
        while !delivery.isIdle, ContinuousClock.now < end {
            // Cancelled: another service failed, and leases end by themselves.
            guard (try? await Task.sleep(for: .milliseconds(10))) != nil else { return }
        }
    }
}
