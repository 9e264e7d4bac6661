import Dispatch
import GRDB
package import Logging
package import StalecastHub
package import StalecastOutbound
package import StalecastWire
import Synchronization

/// Delivers versions to webhooks: at least once the newest (or each, by mode), in order, through failures and restarts.
///
/// A publish writes nothing here: what is owed follows from the webhook's cursor and the store's newest version.
package final class WebhookDelivery: Sendable {
    let database: DeliveryDatabase
    let journal: DeliveryJournal
    let engine: OutboundEngine
    let formatter: any AttemptFormatter
    let history: @Sendable (Scope, CommitSequence, _ limit: Int) -> [TemplateChange]
    private let loop: DeliveryLoop
    /// The topics that are about a scope.
    private let bound: Set<TopicName>
    private let opened = Timestamp.now()
    /// True once this node has had a webhook, or belongs to a cluster that may assign it one.
    private let hasReceivers = Atomic(false)

    package static let fileName = "deliveries.sqlite"
    /// More versions of a scope than a store keeps.
    static let maxStored = 100_000

    /// Opens the database; blocks.
    ///
    /// - Parameters:
    ///   - epoch: the store's.
    ///   - routes: the topics there are.
    ///   - history: a scope's stored changes after a sequence, oldest first, at most so many; may block.
    package init(
        _ configuration: DeliveryConfiguration, epoch: Epoch, engine: OutboundEngine,
        formatter: any AttemptFormatter, routes: [TopicBinding],
        history: @escaping @Sendable (Scope, CommitSequence, _ limit: Int) -> [TemplateChange], logger: Logger
    ) throws {
        database = try DeliveryDatabase(path: configuration.path, epoch: epoch)
        journal = DeliveryJournal(database, configuration, logger)
        self.engine = engine
        self.formatter = formatter
        self.history = history
        bound = Set(routes.lazy.filter { !$0.scopes.isEmpty }.map(\.name))
        let state = DeliveryState(configuration, routes: routes, random: SystemRandomNumberGenerator())
        loop = DeliveryLoop(state, engine, formatter, journal, history, logger)
    }

    // MARK: What happens

    /// Begins, and sends what is owed since the last run, spread over a moment.
    ///
    /// - Parameters:
    ///   - changes: the stored versions of all scopes, oldest first within a scope.
    ///   - others: webhooks that there are besides, of which nothing is forgotten.
    /// - Throws: when the database cannot be read.
    package func start(webhooks: [Webhook], changes: [TemplateChange], others: Set<WebhookID> = []) throws {
        var image = try database.load()
        image.ids.subtract(others)
        let known =
            image.needsAll(webhooks, bound: bound)
            ? Set(changes.map(\.scope)).sorted().flatMap { history($0, 0, Self.maxStored) } : changes
        if !webhooks.isEmpty { expectReceivers() }
        perform { [image, opened] loop in
            loop.take { $0.begin(webhooks, known, image, opened: opened, at: DeliveryLoop.now) }
            loop.sweep()
        }
    }

    /// Reports each webhook that delivery disables, with the reason: `failing`, `gone` or `refused_by_receiver`.
    ///
    /// - Parameter hear: called on the engine's thread. Set it before the start: earlier ones are not reported.
    package func onDisabled(_ hear: @escaping @Sendable (Webhook, String) -> Void) { perform { $0.onDisabled = hear } }

    // MARK: One node of several

    /// Starts a node's delivery, beside ``start(webhooks:changes:others:)``, which then gets no webhook: the webhooks
    /// whose assignment is this node's come by ``adopt(_:_:)``.
    ///
    /// - Parameters:
    ///   - permits: whether an attempt that takes at most so long may begin now.
    ///   - onJournal: hears what is to be remembered of webhooks, in order, on the engine's thread.
    func share(
        permits: @escaping @Sendable (WebhookID, Duration) -> Bool,
        onJournal: @escaping @Sendable ([JournalEntry]) -> Void
    ) {
        expectReceivers()
        perform { loop in
            loop.onJournal = onJournal
            loop.take { $0.permits = permits }
        }
    }

    /// Delivers from now on to these, as the image says.
    func adopt(_ webhooks: [Webhook], _ image: DeliveryImage) {
        perform { loop in loop.take { $0.adopted(webhooks, image, at: DeliveryLoop.now) } }
    }

    /// Begins nothing more for these, and returns when nothing is under way.
    func retire(_ ids: Set<WebhookID>) async {
        await askWhileItRuns { $0.retired(ids) }
        while await askWhileItRuns({ $0.isBusy(ids) }) == true {
            // Cancelled: the lease ends what may be under way.
            guard (try? await Task.sleep(for: .milliseconds(10))) != nil else { return }
        }
    }

    /// Forgets these, with what is under way; what the database has of them stays until they are removed.
    func drop(_ ids: Set<WebhookID>) { perform { $0.take { $0.dropped(ids) } } }

    /// A version was committed: quick, called in the order of commits.
    ///
    /// - Parameter time: of the announcement, monotonic.
    package func announce(_ change: TemplateChange, at time: UInt64) {
        let wakes = hasReceivers.load(ordering: .sequentiallyConsistent)
        perform(wakes: wakes) { $0.take { $0.announced(change, at: time) } }
        // The first webhook may have come meanwhile, and the thread sleeps again.
        if !wakes, hasReceivers.load(ordering: .sequentiallyConsistent) { engine.perform {} }
    }

    private func expectReceivers() { hasReceivers.store(true, ordering: .sequentiallyConsistent) }

    /// A version was committed that only some clients are told of; webhooks are told when all clients are, or never.
    package func pass(over change: TemplateChange) { perform { $0.take { $0.passed(over: change) } } }

    /// A release changed; ``TopicName/releaseOperations`` hears of it.
    package func announce(_ type: String, releaseIn project: ProjectID, _ data: JSONObject) {
        perform { $0.take { $0.changed(type, releaseIn: project, data, at: DeliveryLoop.now) } }
    }

    package func install(_ webhook: Webhook) {
        expectReceivers()
        perform { $0.take { $0.installed(webhook, at: OutboundEngine.now()) } }
    }

    /// Returns when all facts so far are written, or writing has failed. After a crash a webhook without a written
    /// position is owed only the newest version, so the creation of a webhook is answered after its position is
    /// written.
    package func settle() async {
        let journal = journal
        await askWhileItRuns { _ in }
        _ = await handedOver { handOver in DeliveryLoop.readings.async { handOver(journal.flush()) } }
    }

    package func remove(_ id: WebhookID) { perform { $0.take { $0.removed(id) } } }

    /// Subscribes to `hub`: from now on it tells of versions and of topics that a reload changed, in the order in which
    /// all others hear of them.
    package func attach(to hub: Hub) {
        _ = hub.attach { [self] event in
            switch event {
            // A receiver is one client: it hears of a release when all do.
            case .announcement(let announcement) where announcement.audience?.isWhole == false:
                if announcement.audience?.stages.isEmpty == false { pass(over: announcement.change) }
            case .announcement(let announcement): announce(announcement.change, at: announcement.announcedAt)
            case .split: break
            case .rebound(let board):
                let bindings = board.bindings
                perform { $0.take { $0.rebound(bindings, at: OutboundEngine.now()) } }
            case .data: break
            }
        }
    }

    /// Stops starting attempts, and writes what is acknowledged; attempts under way go on until the engine ends them.
    package func stop() { perform { $0.stop() } }

    /// Writes everything that waits, after the engine's end; blocks.
    package func close() {
        journal.close()
        // A database that cannot be closed now is closed by the end of the process.
        try? database.queue.close()
    }

    /// Reason why the database cannot be written; nil when it can.
    package var failure: String? { journal.failure }

    // MARK: Figures

    /// Sums of all deliveries so far, for metrics.
    package func tally() async -> DeliveryTally { await ask { $0.tally(at: .now()) } }

    /// Counts of the webhooks that hear a scope and have a version of it, or a newer one.
    package func reach(of scope: Scope, _ version: VersionNumber) async -> WebhookCounts {
        await ask { $0.reach(of: scope, version) }
    }

    /// Everything that should agree and does not, in sentences; for tests.
    package func checkConsistency() async -> [String] { await ask { $0.checkConsistency(at: OutboundEngine.now()) } }

    /// Attempts that were not logged for want of room.
    package var droppedAttempts: Int { journal.dropped }
    /// The longest transaction of the delivery database so far, in seconds, and how many there were.
    package var flushes: (longest: Double, count: Int) {
        let flushes = journal.flushes
        return (Double(flushes.longest) / 1e9, flushes.count)
    }

    // MARK: The loop's thread

    private func perform(wakes: Bool = true, _ body: @escaping @Sendable (DeliveryLoop) -> Void) {
        loop.perform(wakes: wakes, body)
    }

    /// Tells the state something, or asks it.
    func ask<Value: Sendable>(_ fact: @escaping @Sendable (inout DeliveryState) -> Value) async -> Value {
        await handedOver { handOver in loop.ask(fact, handOver) }
    }

    /// - Returns: nil after the engine's end, when its thread does not guard the state any more.
    @discardableResult private func askWhileItRuns<Value: Sendable>(
        _ fact: @escaping @Sendable (inout DeliveryState) -> Value
    ) async -> Value? {
        let (loop, engine) = (loop, engine)
        return await handedOver { handOver in
            engine.perform { handOver(engine.isCurrent ? loop.take(fact) : nil) }
        }
    }
}
