import Foundation
import StalecastCluster
import StalecastControl
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization

/// Webhooks of a cluster: all nodes know all of them, and one delivers to each.
final class ClusterWebhooks: Sendable {
    let delivery: DutyDelivery
    private let asks: WebhookAsks
    private let nodes: ClusterNodes
    private let registry: WebhookRegistry
    private let verifier: WebhookVerifier
    /// Records there are, as far as they were told.
    private let known = Mutex<Set<String>>([])

    private static let kind = "webhook"
    /// Webhooks are spread over so many duties; all nodes must agree.
    private static let count: UInt64 = 64
    private static let prefix = "webhooks-"
    /// A stop waits so long for attempts under way.
    private static let patience = Duration.seconds(5)

    /// - Parameters:
    ///   - verifier: asks receivers for their consent, for the webhooks whose duty this node has.
    ///   - desk: speaks for this node alone.
    init(
        _ nodes: ClusterNodes, _ store: TemplateStore, _ registry: WebhookRegistry, _ delivery: WebhookDelivery,
        _ verifier: WebhookVerifier, _ desk: WebhookDesk
    ) {
        self.nodes = nodes
        self.registry = registry
        self.verifier = verifier
        let duties = nodes.duties
        let dutyDelivery = DutyDelivery(
            delivery, epoch: store.epoch,
            DutyDelivery.Office(
                duty: { Self.duty(of: $0) }, permits: { duties.permit($0, $1) != nil },
                keep: { try await duties.keep($0, of: $1, token: $2) }, kept: { try await duties.kept(of: $0) }))
        self.delivery = dutyDelivery
        asks = WebhookAsks(nodes: nodes, delivery: dutyDelivery, desk: desk)
        registry.share(Self.shared(nodes.board, store))
        nodes.setWebhooks(worker, Set((0..<Self.count).map { Self.name($0) }))
    }

    /// Access to how delivery goes, whichever node is asked.
    var office: WebhookOffice { asks.office }

    // MARK: Duties

    /// Duty of a webhook, by FNV-1a of its id.
    static func duty(of webhook: WebhookID) -> String {
        let start: UInt64 = 0xCBF2_9CE4_8422_2325
        return name(webhook.description.utf8.reduce(start) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 } % count)
    }

    private static func name(_ number: UInt64) -> String { "\(prefix)\(number < 10 ? "0" : "")\(number)" }

    private var worker: Duties.Worker {
        Duties.Worker(
            begin: { [self] duty, token in
                delivery.begin(duty, token)
                for webhook in registry.webhooks where Self.duty(of: webhook.id) == duty { verifier.consider(webhook) }
            }, finish: { [self] duty, token in await delivery.finish(duty, token) },
            lost: { [self] duty in delivery.lost(duty) })
    }

    /// A webhook was made, changed or removed, on this node or another.
    func take(_ change: WebhookRegistry.Change) {
        delivery.take(change)
        if case .installed(let webhook) = change, nodes.duties.owned(Self.duty(of: webhook.id)) != nil {
            verifier.consider(webhook)
        }
    }

    // MARK: Records

    private static func shared(_ board: RecordBoard, _ store: TemplateStore) -> SharedWebhooks {
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

    private func hear(_ change: RecordBoard.Change) {
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
            group.addTask { [asks, nodes] in await nodes.asks.run { await asks.answer($0) } }
            group.addTask { await self.shareOwn() }
        }
    }

    /// Gives the duties to other nodes, and returns when that is done, or took too long.
    func handOver() async {
        nodes.endWebhooks()
        let end = ContinuousClock.now + Self.patience
        while !delivery.isIdle, ContinuousClock.now < end {
            // Cancelled: another service failed, and leases end by themselves.
            guard (try? await Task.sleep(for: .milliseconds(10))) != nil else { return }
        }
    }
}
