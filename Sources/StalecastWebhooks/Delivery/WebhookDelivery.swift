import GRDB
package import Logging
package import StalecastOutbound
package import StalecastWire

/// Delivers versions to webhooks: at least once the newest (or each, by mode), in order, through failures and restarts.
///
/// A publish writes nothing here: what is owed follows from the webhook's cursor and the store's newest version.
package final class WebhookDelivery: Sendable {
    let scheduler: DeliveryScheduler
    let database: DeliveryDatabase
    let journal: DeliveryJournal
    let engine: OutboundEngine
    let formatter: any AttemptFormatter
    private let startSpread: Duration

    package static let fileName = "deliveries.sqlite"

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
        startSpread = configuration.pace.startSpread
        scheduler = DeliveryScheduler(
            configuration, engine, formatter, journal, image: try database.load(), routes: routes, history: history,
            logger)
    }

    // MARK: What happens

    /// Begins. Whatever is owed since the last run is sent, spread over a moment.
    ///
    /// - Parameter changes: the stored versions of all scopes, oldest first within a scope.
    package func start(webhooks: [Webhook], changes: [TemplateChange]) {
        let spread = min(startSpread.nanoseconds, UInt64(webhooks.count) * 2_000_000)
        perform { scheduler in
            scheduler.know(changes)
            let now = OutboundEngine.now()
            for webhook in webhooks { scheduler.install(webhook, delay: now + UInt64.random(in: 0...spread)) }
        }
    }

    /// A version was committed: quick, called in the order of commits.
    package func announce(_ change: TemplateChange) {
        let now = OutboundEngine.now()
        perform { $0.announce(change, now) }
    }

    /// A webhook was made or changed.
    package func install(_ webhook: Webhook) { perform { $0.install(webhook) } }
    package func remove(_ id: WebhookID) { perform { $0.remove(id) } }
    /// The topics were changed by a reload.
    package func rebind(_ routes: [TopicRoute]) { perform { $0.rebind(routes) } }

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

    // MARK: The loop's thread

    private func perform(_ body: @escaping @Sendable (DeliveryScheduler) -> Void) {
        let scheduler = scheduler
        engine.perform { body(scheduler) }
    }

    /// Asks the scheduler something.
    func ask<Value: Sendable>(_ body: @escaping @Sendable (DeliveryScheduler) -> Value) async -> Value {
        let scheduler = scheduler
        return await handedOver { handOver in engine.perform { handOver(body(scheduler)) } }
    }
}
