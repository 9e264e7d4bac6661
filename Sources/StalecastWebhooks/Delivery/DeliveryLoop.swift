import Dispatch
import Logging
import StalecastOutbound
import StalecastWire
import Synchronization

/// Performs the actions of ``DeliveryState`` and reports their results to it. It is confined to the engine's thread;
/// ``WebhookDelivery`` calls it there. After the engine's end callers may only ask, and take turns.
final class DeliveryLoop: @unchecked Sendable {
    /// A scope's changes after a sequence, oldest first, at most so many; blocks, so never called on the loop.
    typealias History = @Sendable (Scope, CommitSequence, _ limit: Int) -> [TemplateChange]

    private let engine: OutboundEngine
    private let formatter: any AttemptFormatter
    private let journal: DeliveryJournal
    private let logger: Logger
    private let history: History
    private let pace: DeliveryConfiguration.Pace
    private var state: DeliveryState
    /// Hears of what is written, before it is.
    var onJournal: (@Sendable ([JournalEntry]) -> Void)?
    /// Called for each webhook that ``DeliveryState`` disables, with the reason.
    var onDisabled: (@Sendable (Webhook, String) -> Void)?
    /// Requests of the attempts under way, by the attempts' slots.
    private var tickets: [(attempt: UInt64, ticket: OutboundEngine.Ticket)?] = []
    /// Memory for the next turn's, empty in between.
    private var spare: (actions: [DeliveryState.Action], entries: [JournalEntry]) = ([], [])
    private var timer: (time: UInt64, timer: OutboundConfiguration.Timer)?
    private var plans = Plans()
    private var isStopped = false
    /// Held by the one thread that asks after the engine's end.
    private let late = Mutex(())

    private struct Plans {
        var tick = false
        /// Time of the first answer of the engine's turn, while actions wait for the turn's end; nil at other times.
        var answered: Moment?
        var isTicking = false
    }

    /// Queue on which the store's older versions are read.
    static let readings = DispatchQueue(label: "stalecast.deliveries.history")
    /// Interval of the sweep, in nanoseconds.
    private static let sweepEvery: UInt64 = 60_000_000_000

    init(
        _ state: DeliveryState, _ engine: OutboundEngine, _ formatter: any AttemptFormatter,
        _ journal: DeliveryJournal, _ history: @escaping History, _ logger: Logger
    ) {
        self.state = state
        self.engine = engine
        self.formatter = formatter
        self.journal = journal
        self.history = history
        self.logger = logger
        pace = state.configuration.pace
    }

    static var now: Moment { Moment(monotonic: OutboundEngine.now(), wall: .now()) }

    /// Runs `body` on the engine's thread; after its end not at all, because what is owed is found at the next start.
    ///
    /// - Parameter wakes: as ``OutboundEngine/perform(wakes:_:)`` has it.
    func perform(wakes: Bool = true, _ body: @escaping @Sendable (DeliveryLoop) -> Void) {
        engine.perform(wakes: wakes) { if self.engine.isCurrent { body(self) } }
    }

    /// Asks the state on the engine's thread, or after its end on the caller's.
    ///
    /// - Parameter answer: called once, on that thread.
    func ask<Value: Sendable>(
        _ fact: @escaping @Sendable (inout DeliveryState) -> Value, _ answer: @escaping @Sendable (Value) -> Void
    ) {
        engine.perform {
            answer(self.engine.isCurrent ? self.take(fact) : self.late.withLock { _ in self.apply(fact) })
        }
    }

    /// Takes a fact, and does what follows from it.
    func take<Value>(_ fact: (inout DeliveryState) -> Value) -> Value {
        assert(engine.isCurrent, "delivery belongs to the engine's thread")
        return apply(fact)
    }

    private func apply<Value>(_ fact: (inout DeliveryState) -> Value) -> Value {
        defer { carryOut() }
        return fact(&state)
    }

    func stop() { isStopped = true }

    /// Begins to look for what should not be.
    func sweep() {
        if isStopped { return }
        take { $0.sweep(at: OutboundEngine.now()) }
        engine.at(OutboundEngine.now() + Self.sweepEvery) { self.sweep() }
    }

    /// Carries out what follows from all answers of the engine's turn together.
    ///
    /// - Returns: their time.
    private func carryOutSoon() -> Moment {
        if let answered = plans.answered { return answered }
        let now = Self.now
        plans.answered = now
        perform {
            $0.plans.answered = nil
            $0.carryOut()
        }
        return now
    }

    private func carryOut() {
        var (actions, entries): ([DeliveryState.Action], [JournalEntry]) = ([], [])
        // A start that fails leads back here, and finds `spare` empty instead of in use.
        swap(&actions, &spare.actions)
        swap(&entries, &spare.entries)
        state.takeActions(into: &actions)
        for action in actions {
            switch action {
            case .start(let attempt): start(attempt)
            case .cancel(let id): cancel(id)
            case .read(let id, let scope, let after): read(id, scope, after)
            case .journal(let entry): entries.append(entry)
            case .log(let level, let message, let metadata): logger.log(level: level, message, metadata: metadata)
            case .disabled(let webhook, let reason): onDisabled?(webhook, reason)
            }
        }
        if let onJournal, !entries.isEmpty { onJournal(entries) }
        journal.put(entries)
        actions.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        swap(&actions, &spare.actions)
        swap(&entries, &spare.entries)
        plan()
    }

    /// A tick, once per turn of the loop however much has happened, or when the next alarm is due.
    private func plan() {
        guard !isStopped, !plans.tick, let next = state.nextTick else { return }
        if next == 0 {
            plans.tick = true
            // After a full turn, answers that are there are taken first.
            if plans.isTicking {
                engine.at(OutboundEngine.now()) { self.passTime() }
            } else {
                perform { $0.passTime() }
            }
        } else if timer.map({ next < $0.time }) ?? true {
            if let timer { engine.cancel(timer.timer) }
            let timer = engine.at(next) {
                self.timer = nil
                self.passTime()
            }
            self.timer = (next, timer)
        }
    }

    private func passTime() {
        plans.tick = false
        plans.isTicking = true
        if !isStopped { take { $0.tick(at: Self.now) } }
        plans.isTicking = false
    }

    private func read(_ id: UInt64, _ scope: Scope, _ after: CommitSequence) {
        let history = history
        Self.readings.async {
            let oldest = history(scope, 0, 1).first
            let changes = history(scope, after, Lane.window)
            self.perform { $0.take { $0.read(id, oldest: oldest, changes, at: Self.now) } }
        }
    }

    // MARK: Attempts

    private func start(_ attempt: DeliveryState.Attempt) {
        // A copy of the whole webhook would count a reference for each of its parts.
        let (registered, id) = (attempt.registered, attempt.id)
        let delivery = Delivery(webhook: registered.webhook.id, content: attempt.content, attempt: attempt.number)
        do throws(AttemptProblem) {
            switch try formatter.request(for: delivery, webhook: registered, at: attempt.startedAt) {
            case .ready(let request, let messageID):
                // Only a token that is refused needs the request again; it is large, so that others leave it out.
                let slot = AttemptTable.slot(id)
                while tickets.count <= slot { tickets.append(nil) }
                tickets[slot] = (
                    id,
                    registered.webhook.settings.format.isSigned
                        ? engine.submit(request) { self.finish(id, nil, messageID, $0) }
                        : engine.submit(request) { self.finish(id, request, messageID, $0) }
                )
            case .needsToken(let fetch): fetchToken(fetch, attempt)
            }
        } catch {
            // Later, because the code that starts attempts is in the middle of it.
            perform { $0.fail(attempt.id, error) }
        }
    }

    private func cancel(_ id: UInt64) {
        let slot = AttemptTable.slot(id)
        guard tickets.indices.contains(slot), let (attempt, ticket) = tickets[slot], attempt == id else { return }
        engine.cancel(ticket)
    }

    /// The task ends with the token's request, which the engine's end cancels.
    private func fetchToken(
        _ fetch: @escaping @Sendable () async throws(AttemptProblem) -> Void, _ attempt: DeliveryState.Attempt
    ) {
        Task {
            do throws(AttemptProblem) {
                try await fetch()
                perform { $0.resume(attempt) }
            } catch {
                perform { $0.fail(attempt.id, error) }
            }
        }
    }

    /// Starts an attempt whose token has come, if it is wanted still.
    private func resume(_ attempt: DeliveryState.Attempt) {
        if state.mayStart(attempt.id) { return start(attempt) }
        _ = take { $0.finished(attempt.id, .cancelled, AttemptResult(name: "cancelled"), at: Self.now) }
    }

    private func fail(_ id: UInt64, _ problem: AttemptProblem) {
        let result = AttemptResult(problem)
        let ended = take { $0.finished(id, AttemptConclusion(problem), result, at: Self.now) }
        guard let (attempt, next) = ended else { return }
        record(attempt, "", result, next: next)
    }

    private func finish(_ id: UInt64, _ request: OutboundRequest?, _ messageID: String, _ outcome: OutboundOutcome) {
        let slot = AttemptTable.slot(id)
        if tickets.indices.contains(slot) { tickets[slot] = nil }
        // At the end everything is cut off, and owed still.
        if isStopped, case .failed(let failure) = outcome.result, failure.reason == .cancelled { return }
        let now = carryOutSoon()
        let name = outcome.result.className
        let conclusion = AttemptConclusion(outcome, pace, at: now.wall)
        let result = AttemptResult(outcome)
        let ended = state.finished(id, conclusion, result, named: name, at: now)
        guard let (attempt, next) = ended else { return }
        state.tally.phases.add(outcome.phases)
        if let request, let status = outcome.status {
            formatter.answered(status: status, to: request, webhook: attempt.webhook)
        }
        log(attempt, outcome, name)
        record(attempt, messageID, result, phases: outcome.phases, next: next)
    }

    // MARK: The attempt log

    /// The state logs when attempts begin to fail and when they succeed again.
    private func log(_ attempt: DeliveryState.Attempt, _ outcome: OutboundOutcome, _ name: String) {
        guard case .failed(let failure) = outcome.result else { return }
        logger.debug(
            "webhook attempt failed",
            metadata: [
                "webhook": "\(attempt.webhook.id)", "reason": "\(name)", "detail": "\(failure.detail)",
                "address": "\(outcome.remoteAddress)",
            ])
    }

    private func record(
        _ attempt: DeliveryState.Attempt, _ messageID: String, _ result: AttemptResult,
        phases: OutboundOutcome.Phases = OutboundOutcome.Phases(), next: Timestamp?
    ) {
        var phases = phases
        // Only a first attempt has waited since the announcement.
        if attempt.number == 1, let announced = attempt.heard?.announcedAt, announced > 0 {
            phases.queue += Int64((attempt.started - min(attempt.started, announced)) / 1000)
        }
        let change = attempt.heard?.change
        let row = DeliveryAttempt(
            webhook: attempt.registered.webhook.id, scope: change?.scope, version: change?.version, kind: attempt.kind,
            messageID: messageID, number: attempt.number, startedAt: attempt.startedAt,
            result: result, phases: phases, nextAt: next)
        journal.put(row)
    }
}

extension DeliveryState.Attempt {
    /// Kind that listed attempts show.
    fileprivate var kind: String {
        if case .operational(let event) = content { return event.type }
        return "stale"
    }
}

extension OutboundOutcome {
    fileprivate var status: Int? {
        guard case .answered(let status, _, _, _) = result else { return nil }
        return status
    }
}

extension OutboundOutcome.Phases {
    fileprivate mutating func add(_ other: OutboundOutcome.Phases) {
        queue += other.queue
        dns += other.dns
        connect += other.connect
        tls += other.tls
        server += other.server
        total += other.total
    }
}
