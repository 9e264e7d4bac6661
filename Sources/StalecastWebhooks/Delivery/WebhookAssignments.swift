package import StalecastRecords
package import StalecastWire

/// Webhooks of a cluster: all nodes know all of them, and the node that has a webhook's assignment delivers to it.
package final class WebhookAssignments: Sendable {
    package let delivery: AssignedDelivery
    private let membership: Membership
    private let registry: WebhookRegistry
    private let loop: WebhookDelivery
    private let verifier: WebhookVerifier

    /// - Parameters:
    ///   - place: position of this node in the history, now.
    ///   - verifier: asks receivers for their consent, for the webhooks whose assignment this node has.
    package init(
        _ membership: Membership, place: @escaping @Sendable () -> Cursor, _ registry: WebhookRegistry,
        _ delivery: WebhookDelivery, _ verifier: WebhookVerifier
    ) {
        (self.membership, self.registry, loop, self.verifier) = (membership, registry, delivery, verifier)
        self.delivery = AssignedDelivery(delivery, epoch: place().epoch, membership.assignments)
        registry.share(in: membership.informer, place: place)
    }

    /// Begins with nothing to deliver, until assignments are this node's.
    ///
    /// - Parameter changes: the stored versions, oldest first within a scope.
    /// - Throws: when the delivery database cannot be read.
    package func begin(_ changes: [TemplateChange]) throws {
        registry.observe { [self] in take($0) }
        let webhooks = registry.webhooks
        try loop.start(webhooks: [], changes: changes, others: Set(webhooks.map(\.id)))
        delivery.begin(with: webhooks)
        membership.setWebhooks(worker, Self.names)
    }

    /// Hands everything over to other nodes, which deliver from then on.
    ///
    /// - Parameter time: for attempts under way; then leases end by themselves.
    package func handOver(within time: Duration) async {
        membership.endWebhooks()
        await delivery.untilIdle(within: time)
    }

    private var worker: AssignmentService.Worker {
        AssignmentService.Worker(
            begin: { [self] assignment, token in
                delivery.begin(assignment, token)
                for webhook in registry.webhooks where webhook.id.assignment == assignment {
                    verifier.consider(webhook)
                }
            }, finish: { [self] assignment, token in await delivery.finish(assignment, token) },
            lost: { [self] assignment in delivery.lost(assignment) })
    }

    /// A webhook was made, changed or removed, on this node or another.
    private func take(_ change: WebhookRegistry.Change) {
        delivery.take(change)
        if case .installed(let webhook) = change, membership.assignments.owned(webhook.id.assignment) != nil {
            verifier.consider(webhook)
        }
    }

    package func run() async {
        async let following: Void = registry.followShared()
        await delivery.run()
        await following
    }

    // MARK: Names

    /// Webhooks are spread over so many assignments; all nodes must agree.
    private static let count: UInt64 = 64

    package static let names = Set((0..<count).map { name($0) })

    fileprivate static func name(of webhook: WebhookID) -> String {
        let start: UInt64 = 0xCBF2_9CE4_8422_2325
        return name(webhook.description.utf8.reduce(start) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 } % count)
    }

    private static func name(_ number: UInt64) -> String { "webhooks-\(number < 10 ? "0" : "")\(number)" }
}

extension WebhookID {
    /// Assignment of which the webhook is part, by FNV-1a of its id.
    package var assignment: String { WebhookAssignments.name(of: self) }
}
