package import StalecastRecords
package import StalecastStore
package import StalecastWire

/// A daemon's part in a cluster: keeps its store at the end of the shared log, and gives what is published its place
/// there. ``Follower``, ``Proposer`` and ``HeadChecks`` decide; this does what they say, and tells them what came of
/// it.
package actor ClusterNode {
    /// Report for the operator.
    package enum Report: Sendable, Hashable {
        /// The log gives no answer, or none that can be used; says why. Comes once until ``reachable``, or until it is
        /// for another reason.
        case unreachable(String)
        case reachable
        /// An entry that was read from the log cannot be stored here; says why. It is tried again. Comes once until
        /// ``appliesAgain``, or until it is for another reason.
        case cannotApply(String)
        case appliesAgain
        /// The log's history is not the one this node followed; another was begun.
        case renewing
        /// The store must be opened anew as a replica of this epoch: the process has to begin again.
        case foreignEpoch(Epoch)
        /// Outcome of a publish whose publisher was told that it is not known; nil for ever unknown.
        case resolved(PublishID, isCommitted: Bool?)
    }

    let log: any SharedLog
    let store: TemplateStore
    /// Unique in the cluster.
    package nonisolated let name: String
    let report: @Sendable (Report) -> Void
    let now: @Sendable () -> Duration
    let fetchWindow: FetchWindow
    /// Time that a read waits for the log's answer.
    package nonisolated let patience: @Sendable () -> Duration
    /// It only follows the log, and changes nothing in it.
    let isEdge: Bool

    /// Milliseconds over which the clients of all nodes spread their fetches after a change of a scope.
    package typealias FetchWindow = @Sendable (Scope, _ isUrgent: Bool) -> Int

    package internal(set) var follower: Follower
    private var checks = HeadChecks()
    private var watch: Task<Void, Never>?
    private var tickets: [UInt64: CheckedContinuation<Bool?, Never>] = [:]
    private var lastTicket: UInt64 = 0
    /// Why the log gives no answer that can be used, when it gives none.
    private(set) var trouble: String?
    /// Problem that was reported last, and when.
    private var told: (problem: String, at: Duration)?
    /// Time of the last answer of the log that says that the replica is at its end, also before the process began; nil:
    /// not known.
    private var verifiedAt: Duration?
    private var silence = LogSilence()
    private var isProbing = false
    /// Bytes that each scope brought into the log.
    var budget = LogBudget()
    private var backoff: Backoff
    /// The log has another history, and the process has to begin again.
    private(set) var isOver = false
    private var applyStall = ApplyStall()

    /// Counts so far; ``ClusterFigures/newest`` is how far the log goes.
    package internal(set) var figures = ClusterFigures()
    var contentSweep = ContentSweep()
    /// The last log metadata that the replica and the log agree under which numbers are given away.
    private var floored: LogMetadata?

    var runs: [PublishID: Run] = [:]
    /// Publishes that came to nothing after their publisher was told that the outcome is unknown.
    var failures: [PublishID] = []
    var random = SystemRandomNumberGenerator()
    var isProposing = false
    var queue: [CheckedContinuation<Void, Never>] = []

    /// - Parameters:
    ///   - store: opened as a replica, and whole: see ``fill(_:from:)``.
    ///   - now: of a clock that only goes forward.
    ///   - fetchWindow: for what this node proposes; none by default.
    ///   - patience: how long a read waits for the log's answer before it answers with what the replica has; asked anew
    ///     for each, as it follows the delay to the log.
    ///   - isEdge: true for a node that only follows.
    ///   - backoff: pauses between attempts to read and to watch the log.
    /// - Throws: what the store says when its state cannot be read.
    package init(
        _ log: any SharedLog, _ store: TemplateStore, name: String, now: @escaping @Sendable () -> Duration,
        fetchWindow: @escaping FetchWindow = { _, _ in 0 },
        patience: @escaping @Sendable () -> Duration = { .seconds(2) }, isEdge: Bool = false,
        backoff: Backoff = Backoff(), report: @escaping @Sendable (Report) -> Void
    ) throws(StoreError) {
        let state = try store.replicaState()
        self.log = log
        self.store = store
        self.name = name
        self.now = now
        self.fetchWindow = fetchWindow
        self.patience = patience
        self.isEdge = isEdge
        self.backoff = backoff
        self.report = report
        follower = Follower(epoch: state.epoch, head: state.logHead, isWhole: state.isWhole)
        verifiedAt = store.verifiedBefore.map { now() - $0 }
    }

    /// Time between two looks at the log's head without a request: finds what a watch did not bring.
    private static let lookEvery: Duration = .seconds(5)

    /// Follows the log until the task is cancelled.
    package func run() async {
        perform(follower.begin())
        while !Task.isCancelled {
            do { try await Task.sleep(for: Self.lookEvery) } catch { break }
            if await look(within: max(Self.lookEvery, patience())) == true {
                store.noteVerified()
            } else {
                perform(follower.distrustWatch())
            }
        }
        watch?.cancel()
        for continuation in tickets.values { continuation.resume(returning: nil) }
        tickets = [:]
    }

    // MARK: Reading

    /// Whether the store has everything that was in the log when this was called; nil when the log did not answer in
    /// time. While the log is silent it says so at once, and one question goes on in the background.
    package func isCurrent(within time: Duration) async -> Bool? {
        guard silence.isOn else { return await look(within: time) }
        if !isProbing {
            isProbing = true
            // Ends by itself within `time`.
            Task {
                _ = await look(within: time)
                isProbing = false
            }
        }
        return nil
    }

    private func look(within time: Duration) async -> Bool? {
        let began = now()
        let answer = await ask(within: time)
        if answer == true { silence.answered() } else { silence.missed(since: began, now: now()) }
        return answer
    }

    private func ask(within time: Duration) async -> Bool? {
        await answer(within: time) { node, ticket in
            if let action = node.checks.asked(ticket, now: node.now()) { node.perform([action]) }
        }
    }

    /// Reads the log from now on to its end, and applies it.
    ///
    /// - Returns: whether that was done; nil when it was not in time.
    package func catchUp(within time: Duration) async -> Bool? {
        await answer(within: time) { node, ticket in node.perform(node.follower.asked(ticket)) }
    }

    package func refresh() async -> Bool { await isCurrent(within: patience()) == true }

    private func answer(
        within time: Duration, _ ask: (isolated ClusterNode, UInt64) -> Void
    ) async -> Bool? {
        lastTicket += 1
        let ticket = lastTicket
        let timer = Task { [weak self] in
            try await Task.sleep(for: time)
            await self?.answer(ticket, nil)
        }
        defer { timer.cancel() }
        return await withCheckedContinuation { continuation in
            tickets[ticket] = continuation
            ask(self, ticket)
        }
    }

    private func answer(_ ticket: UInt64, _ answer: Bool?) {
        if answer == true { verifiedAt = now() }
        tickets.removeValue(forKey: ticket)?.resume(returning: answer)
    }

    /// Time since the log last confirmed that the replica is at its end, over restarts; a year when not known.
    package var unverified: Duration { verifiedAt.map { now() - $0 } ?? .seconds(365 * 86_400) }

    private func perform(_ actions: [HeadChecks.Action]) {
        for action in actions {
            switch action {
            case .wake(let time):
                Task {
                    try? await Task.sleep(for: time)
                    if let next = checks.due(now: now()) { perform([next]) }
                }
            case .release(let tickets, let isVerified): for ticket in tickets { answer(ticket, isVerified) }
            case .catchUp(let tickets): for ticket in tickets { perform(follower.asked(ticket)) }
            case .check: Task { await check() }
            }
        }
    }

    private func check() async {
        guard let logMetadata = follower.logMetadata, follower.isReady || logMetadata.isFrozen else {
            return perform(checks.answered(.behind, now: now()))
        }
        let answer: HeadChecks.Answer
        do throws(LogError) {
            answer = try await log.isCurrent(follower.head, under: logMetadata) ? .current : .behind
            reached()
        } catch {
            answer = .none
            missed(error)
        }
        figures.checks[ClusterFigures.Check(answer), default: 0] += 1
        perform(checks.answered(answer, now: now()))
    }

    // MARK: Following

    func perform(_ actions: [Follower.Action]) {
        actions.forEach(perform)
    }

    private func perform(_ action: Follower.Action) {
        switch action {
        case .watch(let session):
            watch?.cancel()
            watch = Task { await watch(session) }
        case .read(let id, let after, let limit): Task { await read(id, after, limit) }
        case .apply(let entries): Task { await apply(entries) }
        case .rebuild(let logMetadata): Task { await beginAnew(logMetadata) }
        case .renewEpoch(let logMetadata, let head):
            Task {
                if isEdge { await awaitRenewal() } else { await renewEpoch(logMetadata, at: head) }
                perform(follower.renewed())
            }
        case .caughtUp(let tickets, let isDone): for ticket in tickets { answer(ticket, isDone) }
        case .retry:
            let pause = applyStall.pause(&random) ?? backoff.next(&random)
            Task {
                try? await Task.sleep(for: pause)
                perform(follower.due())
            }
        }
    }

    private func watch(_ session: Int) async {
        figures.watches += 1
        do throws(LogError) {
            for await watchEvent in try await log.watch() {
                if case .entry(let entry) = watchEvent { figures.newest = max(figures.newest, entry.sequence) }
                perform(follower.received(watchEvent, in: session))
            }
        } catch { missed(error) }
        if Task.isCancelled { return }
        figures.failures[.watch, default: 0] += 1
        perform(follower.watchEnded(session))
    }

    private func read(_ id: Int, _ after: CommitSequence, _ limit: Int) async {
        let result: Result<LogPage, LogError>
        do throws(LogError) {
            let page = try await page(after: after, limit: limit)
            figures.newest = page.head.sequence
            result = .success(page)
            reached()
        } catch {
            figures.failures[.read, default: 0] += 1
            result = .failure(error)
            missed(error)
        }
        let actions = follower.pageRead(id, result)
        if let hole = follower.hole {
            stalled("entry \(hole) is missing in the log, and retention did not remove it")
        } else if case .success(let page) = result, page.head == follower.head {
            ended()
        }
        perform(actions)
    }

    private func beginAnew(_ logMetadata: LogMetadata) async {
        // What lies between the replica and the log was pruned: it is not known whether it is the same history.
        while logMetadata.epoch == follower.epoch, !Task.isCancelled {
            do throws(StoreError) {
                try await store.becamePartial()
                break
            } catch {
                stalled(error.description)
                try? await Task.sleep(for: Self.applyAgain)
            }
        }
        isOver = true
        // What waits would wait in vain, and the process for it.
        endRuns()
        for ticket in tickets.keys { answer(ticket, nil) }
        report(.foreignEpoch(logMetadata.epoch))
    }

    /// Under log metadata that says which numbers this replica knows to be given away, and they are no longer given
    /// here that it says of others: a node that was away may know more than the one that began this history. An edge
    /// gives no numbers, and only takes over what the metadata says.
    private func page(after: CommitSequence, limit: Int) async throws(LogError) -> LogPage {
        let page = try await log.page(after: after, limit: limit)
        let logMetadata = page.logMetadata
        // Of another history the replica begins anew, and keeps its numbers.
        if logMetadata == floored || logMetadata.epoch != follower.epoch { return page }
        let own: NumberFloors
        do throws(StoreError) {
            let known = try await store.floors()
            own = known.above
            if !known.all.cover(logMetadata.floors) { try await store.raiseFloors(to: logMetadata.floors) }
        } catch {
            stalled(error.description)
            throw .notDone(error.description)
        }
        guard isEdge || logMetadata.isFrozen || logMetadata.floors.cover(own) else {
            _ = try await amend(logMetadata) { $0.floors.cover(own) ? nil : $0.raised(to: own) }
            return try await self.page(after: after, limit: limit)
        }
        floored = logMetadata
        return page
    }

    private func renewEpoch(_ logMetadata: LogMetadata, at head: LogHead) async {
        do throws(LogError) {
            let new = try renewed(logMetadata, .random(using: &random))
            let held = try await log.amend(logMetadata, to: new, at: head)
            if held.epoch == new.epoch {
                figures.renewals += 1
                report(.renewing)
            } else if held == logMetadata {
                // The log has gone on, or what was read is of long ago, and may be once more.
                try? await Task.sleep(for: backoff.next(&random))
            }
        } catch {
            missed(error)
            try? await Task.sleep(for: Self.applyAgain)
        }
    }

    static let applyAgain: Duration = .seconds(1)

    private func apply(_ entries: [LogEntry]) async {
        while !Task.isCancelled {
            do {
                try await store.apply(try await Self.versions(of: entries, from: log))
                break
            } catch {
                figures.failures[.apply, default: 0] += 1
                stalled("\(error)")
                // What is no longer in the log can only be seen by looking at it anew.
                if error is LogError || applyStall.isLasting { return perform(follower.applyFailed()) }
                perform(follower.applyIsLate())
                try? await Task.sleep(for: applyStall.pause(&random) ?? Self.applyAgain)
            }
        }
        for entry in entries { budget.note(entry.contentBytes, of: entry.change.scope, now: now()) }
        ended()
        perform(follower.applied())
        moved()
    }

    func stalled(_ why: String) { if applyStall.met(why, now: now()) { report(.cannotApply(why)) } }

    private func ended() { if applyStall.passed() { report(.appliesAgain) } }

    /// Time for which nothing that was read could be stored; zero: it can.
    package var stalledFor: Duration { applyStall.time(now: now()) }

    /// Members can be away for different reasons: another one is told after this long.
    private static let tellAgain = Duration.seconds(5)

    func reached() {
        backoff.end()
        guard trouble != nil else { return }
        (trouble, told) = (nil, nil)
        report(.reachable)
    }

    func missed(_ error: LogError) {
        let problem = error.description
        trouble = problem
        if let told, told.problem == problem || now() < told.at + Self.tellAgain { return }
        told = (problem, now())
        report(.unreachable(problem))
    }
}
