import GRDB
package import Logging
package import StalecastOutbound
package import StalecastWire

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
    private let startSpread: Duration
    private let opened = Timestamp.now()

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
        formatter: any AttemptFormatter, routes: [TopicRoute],
        history: @escaping @Sendable (Scope, CommitSequence, _ limit: Int) -> [TemplateChange], logger: Logger
    ) throws {
        database = try DeliveryDatabase(path: configuration.path, epoch: epoch)
        journal = DeliveryJournal(database, configuration, logger)
        self.engine = engine
        self.formatter = formatter
        self.history = history
        startSpread = configuration.pace.startSpread
        let state = DeliveryState(configuration, routes: routes, random: SystemRandomNumberGenerator())
        loop = DeliveryLoop(state, engine, formatter, journal, history, logger)
    }

    // MARK: What happens

    /// Begins. Whatever is owed since the last run is sent, spread over a moment.
    ///
    /// - Parameter changes: the stored versions of all scopes, oldest first within a scope.
    /// - Throws: when the database cannot be read.
    package func start(webhooks: [Webhook], changes: [TemplateChange]) throws {
        let image = try database.load()
        let known =
            image.needsAll(webhooks)
            ? Set(changes.map(\.scope)).sorted().flatMap { history($0, 0, Self.maxStored) } : changes
        let spread = min(startSpread.nanoseconds, UInt64(webhooks.count) * 2_000_000)
        let opened = opened
        perform { loop in
            loop.take { $0.begin(webhooks, known, image, opened: opened, spread: spread, at: DeliveryLoop.now) }
            loop.sweep()
        }
    }

    /// A version was committed: quick, called in the order of commits.
    ///
    /// - Parameter time: of the announcement, monotonic.
    package func announce(_ change: TemplateChange, at time: UInt64) {
        perform { $0.take { $0.announced(change, at: time) } }
    }

    /// A webhook was made or changed.
    package func install(_ webhook: Webhook) {
        perform { $0.take { $0.installed(webhook, at: OutboundEngine.now()) } }
    }

    package func remove(_ id: WebhookID) { perform { $0.take { $0.removed(id) } } }

    /// The topics were changed by a reload.
    package func rebind(_ routes: [TopicRoute]) {
        perform { $0.take { $0.rebound(routes, at: OutboundEngine.now()) } }
    }

    /// Stops starting attempts, and writes what is acknowledged; attempts under way go on until the engine ends them.
    package func stop() { perform { $0.stop() } }

    /// Writes everything that waits, after the engine's end; blocks.
    package func close() {
        _ = journal.flush()
        // A database that cannot be closed now is closed by the end of the process.
        try? database.queue.close()
    }

    /// Why the database cannot be written; nil when it can.
    package var failure: String? { journal.failure }

    // MARK: Figures

    /// What deliveries have come to, for metrics.
    package func tally() async -> DeliveryTally {
        let loop = loop
        return await handedOver { handOver in engine.perform { handOver(loop.tally) } }
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

    private func perform(_ body: @escaping @Sendable (DeliveryLoop) -> Void) {
        let loop = loop
        engine.perform { body(loop) }
    }

    /// Tells the state something, or asks it.
    func ask<Value: Sendable>(_ fact: @escaping @Sendable (inout DeliveryState) -> Value) async -> Value {
        let loop = loop
        return await handedOver { handOver in engine.perform { handOver(loop.take(fact)) } }
    }
}
