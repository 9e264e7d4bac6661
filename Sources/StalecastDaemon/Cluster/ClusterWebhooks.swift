import StalecastControl
import StalecastRecords
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Webhooks of a cluster: all nodes know all of them, and one delivers to each.
final class ClusterWebhooks: Sendable {
    let delivery: AssignedDelivery
    private let peerRequests: WebhookPeerRequests
    private let nodes: ClusterNodes
    private let registry: WebhookRegistry
    private let verifier: WebhookVerifier

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
        registry.share(in: nodes.board) { Cursor(epoch: store.epoch, sequence: store.head()) }
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

    // MARK: While the daemon runs

    /// Works until its task is cancelled; ``handOver()`` first.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.delivery.run() }
            group.addTask { [peerRequests, nodes] in await nodes.peerRequests.run { await peerRequests.answer($0) } }
            group.addTask { await self.registry.followShared() }
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
