package import StalecastRecords
package import StalecastStore
package import StalecastWire

/// One node of a cluster: applies the shared log to its store, and appends versions that are published here to the log.
/// ``Follower``, ``Proposer`` and ``HeadChecks`` decide; the node performs their actions and reports the results to
/// them. It is an actor because it awaits the log and the store between two changes of its state.
package actor ClusterNode {
    /// Report for the operator.
    package enum Report: Sendable, Hashable {
        /// The log does not answer, or its answer cannot be used; the text is the reason. Reported once until
        /// ``reachable``, and again when the reason changes.
        case unreachable(String)
        case reachable
        /// An entry of the log cannot be stored here; the text is the reason. The node tries again. Reported once until
        /// ``appliesAgain``, and again when the reason changes.
        case cannotApply(String)
        case appliesAgain
        /// The log's history is not the one this node followed; another was begun.
        case renewing
        /// The store must be opened again as a replica of this epoch: the process has to restart.
        case foreignEpoch(Epoch)
        /// Outcome of a publish that was reported to its publisher as unknown; nil: it stays unknown.
        case resolved(PublishID, isCommitted: Bool?)
    }

    /// Settings that stay for the node's life.
    struct Settings: Sendable {
        let name: String
        /// True for a node that only follows the log, and changes nothing in it.
        let isEdge: Bool
        let fetchWindow: FetchWindow
        let patience: @Sendable () -> Duration
        let report: @Sendable (Report) -> Void
    }

    private enum Life {
        case following
        /// The log has another history, and the process has to begin again.
        case overtaken
        case ended
    }

    /// Reads of the log's head, for callers that ask whether the replica is at the log's end.
    private struct HeadReads {
        var checks = HeadChecks()
        var silence = LogSilence()
        var isProbing = false
        /// Time of the log's last answer that the replica is at its end, which may be before this process began; nil:
        /// unknown.
        var verifiedAt: Duration?
    }

    /// Milliseconds over which the clients of all nodes spread their fetches after a change of a scope.
    package typealias FetchWindow = @Sendable (Scope, _ isUrgent: Bool) -> Int

    let log: any SharedLog
    let store: TemplateStore
    nonisolated let settings: Settings
    let now: @Sendable () -> Duration

    package internal(set) var follower: Follower
    var work = NodeWork()
    private var life = Life.following
    private var headReads = HeadReads()
    private var tickets = ReadTickets()
    var reach: LogReach
    private var applyStall = ApplyStall()
    var publishes = Publishes()
    var upkeep = LogUpkeep()
    /// Counts so far; ``ClusterFigures/newest`` is how far the log goes.
    package internal(set) var figures = ClusterFigures()
    var random = SystemRandomNumberGenerator()

    /// Unique in the cluster.
    package nonisolated var name: String { settings.name }
    /// Time that a read waits for the log's answer.
    package nonisolated var patience: @Sendable () -> Duration { settings.patience }

    /// - Parameters:
    ///   - store: opened as a replica, and whole: see ``fill(_:from:)``.
    ///   - now: of a clock that only goes forward.
    ///   - fetchWindow: for what this node proposes; none by default.
    ///   - patience: how long a read waits for the log's answer before it answers with what the replica has; asked
    ///     again for each, as it follows the delay to the log.
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
        (self.log, self.store, self.now) = (log, store, now)
        settings = Settings(
            name: name, isEdge: isEdge, fetchWindow: fetchWindow, patience: patience, report: report)
        reach = LogReach(backoff)
        follower = Follower(epoch: state.epoch, head: state.logHead, isWhole: state.isWhole)
        headReads.verifiedAt = store.verifiedBefore.map { now() - $0 }
    }

    /// Time between two reads of the log's head without a request; they find entries that a watch missed.
    private static let readEvery: Duration = .seconds(5)

    /// Follows the log until the task is cancelled. Call it once. When it returns, no task of the node is left, and
    /// every reader and publisher has an answer.
    package func run() async {
        perform(follower.begin())
        await withDiscardingTaskGroup { group in
            group.addTask { await self.readHeadRegularly() }
            // Cancelled: there are no more.
            for await job in work.jobs { group.addTask { await job(self) } }
            end()
            group.cancelAll()
        }
        await work.watch?.value
    }

    private func readHeadRegularly() async {
        while !Task.isCancelled {
            // Cancelled: the loop ends.
            guard (try? await Task.sleep(for: Self.readEvery)) != nil else { return }
            if await readHead(within: max(Self.readEvery, patience())) == true {
                store.noteVerified()
            } else {
                // The log is ahead of the watch, or silent: the watch may have missed entries.
                perform(follower.distrustWatch())
            }
        }
    }

    private func end() {
        life = .ended
        work.end()
        tickets.end()
        abandonPublishes()
    }

    /// Reason why this node publishes nothing any more; nil while it does.
    var refusal: StoreError? {
        switch life {
        case .following: nil
        case .overtaken:
            .unavailable("another history of the cluster's log begins; nothing was committed; try again")
        case .ended: .unavailable("this node ends; nothing was committed; try again at another one")
        }
    }

    private static let tick = Duration.milliseconds(50)

    /// Answers readers and publishers whose time is up; one task for all of them, which ends when none waits.
    func keepTime() {
        if work.isKeepingTime { return }
        work.isKeepingTime = true
        work.begin { node in
            while !node.tickets.isEmpty || node.publishes.isAwaited {
                let time = min(node.tickets.untilNext() ?? Self.tick, Self.tick)
                // Cancelled: all were answered.
                guard (try? await Task.sleep(for: time)) != nil else { return }
                node.tickets.expire()
                node.expirePublishes()
            }
            node.work.isKeepingTime = false
        }
    }

    // MARK: Reading

    /// Whether the store has everything that was in the log when this was called; nil when the log did not answer in
    /// time. While the log is known to be silent this returns nil at once, and one read goes on in the background.
    package func isCurrent(within time: Duration) async -> Bool? {
        guard headReads.silence.isOn else { return await readHead(within: time) }
        if !headReads.isProbing {
            headReads.isProbing = true
            work.begin { node in
                _ = await node.readHead(within: time)
                node.headReads.isProbing = false
            }
        }
        return nil
    }

    private func readHead(within time: Duration) async -> Bool? {
        let began = now()
        let answer = await ask(within: time)
        // After missed answers callers no longer wait; see `isCurrent`.
        if answer == true { headReads.silence.answered() } else { headReads.silence.missed(since: began, now: now()) }
        return answer
    }

    private func ask(within time: Duration) async -> Bool? {
        await answer(within: time) { node, ticket in
            if let action = node.headReads.checks.asked(ticket, now: node.now()) { node.perform([action]) }
        }
    }

    /// Reads the log to its present end, and applies it.
    ///
    /// - Returns: whether that was done; nil when the time was too short.
    package func catchUp(within time: Duration) async -> Bool? {
        await answer(within: time) { node, ticket in node.perform(node.follower.asked(ticket)) }
    }

    package func refresh() async -> Bool { await isCurrent(within: patience()) == true }

    private func answer(
        within time: Duration, _ ask: (isolated ClusterNode, ReadTickets.Ticket) -> Void
    ) async -> Bool? {
        if case .ended = life { return nil }
        return await withCheckedContinuation { continuation in
            let ticket = tickets.add(continuation, for: time)
            keepTime()
            ask(self, ticket)
        }
    }

    private func answer(_ ticket: ReadTickets.Ticket, _ answer: Bool?) {
        if answer == true { headReads.verifiedAt = now() }
        tickets.answer(ticket, answer)
    }

    /// Time since the log last confirmed that the replica is at its end, also across restarts; a year when unknown.
    package var unverified: Duration { headReads.verifiedAt.map { now() - $0 } ?? .seconds(365 * 86_400) }

    private func perform(_ actions: [HeadChecks.Action]) {
        for action in actions {
            switch action {
            case .wake(let time):
                work.begin { node in
                    // Cancelled: all that ask were answered.
                    try? await Task.sleep(for: time)
                    if let next = node.headReads.checks.due(now: node.now()) { node.perform([next]) }
                }
            case .release(let tickets, let isVerified): for ticket in tickets { answer(ticket, isVerified) }
            case .catchUp(let tickets): for ticket in tickets { perform(follower.asked(ticket)) }
            case .check: work.begin { await $0.check() }
            }
        }
    }

    private func check() async {
        // A replica that is not verified cannot be compared with one head: it has to read.
        guard let logMetadata = follower.logMetadata, follower.isReady || logMetadata.isFrozen else {
            return perform(headReads.checks.answered(.behind, now: now()))
        }
        let answer: HeadChecks.Answer
        do throws(LogError) {
            answer = try await log.isCurrent(follower.head, under: logMetadata) ? .current : .behind
            reached()
        } catch {
            answer = .unanswered
            missed(error)
        }
        figures.checks[answer, default: 0] += 1
        perform(headReads.checks.answered(answer, now: now()))
    }

    // MARK: Following

    func perform(_ actions: [Follower.Action]) {
        actions.forEach(perform)
    }

    private func perform(_ action: Follower.Action) {
        if case .ended = life { return }
        switch action {
        case .watch(let session):
            // Ended by the next one, and with the group that waits for it.
            work.replaceWatch(by: Task { await watch(session) })
        case .read(let id, let after, let limit): work.begin { await $0.read(id, after, limit) }
        case .apply(let entries): work.begin { await $0.apply(entries) }
        case .rebuild(let logMetadata): work.begin { await $0.beginAnew(logMetadata) }
        case .renewEpoch(let logMetadata, let head):
            work.begin { node in
                if node.settings.isEdge {
                    await node.awaitRenewal()
                } else {
                    await node.renewEpoch(logMetadata, at: head)
                }
                node.perform(node.follower.renewed())
            }
        case .caughtUp(let tickets, let isDone): for ticket in tickets { answer(ticket, isDone) }
        case .retry:
            // A store that cannot apply sets the pace; otherwise the log's silence does.
            let pause = applyStall.pause(&random) ?? reach.backoff.next(&random)
            work.begin { node in
                // Cancelled: what follows is no longer begun.
                guard (try? await Task.sleep(for: pause)) != nil else { return }
                node.perform(node.follower.due())
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
        // The entries between the replica and the log were pruned, so it is unknown whether both share one history.
        while logMetadata.epoch == follower.epoch, !Task.isCancelled {
            do throws(StoreError) {
                try await store.becamePartial()
                break
            } catch {
                stalled(error.description)
                // Cancelled: the loop ends.
                try? await Task.sleep(for: Self.applyAgain)
            }
        }
        if Task.isCancelled { return }
        life = .overtaken
        // Readers and publishers would get no answer, and would hold up the end of the process.
        endPublishes()
        tickets.end()
        settings.report(.foreignEpoch(logMetadata.epoch))
    }

    static let applyAgain: Duration = .seconds(1)

    private func apply(_ entries: [LogEntry]) async {
        while !Task.isCancelled {
            do {
                try await store.apply(try await Self.versions(of: entries, from: log))
                break
            } catch {
                if Task.isCancelled { return }
                figures.failures[.apply, default: 0] += 1
                stalled("\(error)")
                // Only a new read of the log shows whether the entry is gone.
                if error is LogError || applyStall.isLasting { return perform(follower.applyFailed()) }
                perform(follower.applyIsLate())
                // Cancelled: the loop ends.
                try? await Task.sleep(for: applyStall.pause(&random) ?? Self.applyAgain)
            }
        }
        if Task.isCancelled { return }
        for entry in entries { publishes.budget.note(entry.contentBytes, of: entry.change.scope, now: now()) }
        ended()
        perform(follower.applied())
        moved()
    }

    func stalled(_ why: String) {
        // The node ends: the store is not at fault.
        if Task.isCancelled { return }
        if applyStall.met(why, now: now()) { settings.report(.cannotApply(why)) }
    }

    private func ended() { if applyStall.passed() { settings.report(.appliesAgain) } }

    /// Time since entries of the log could no longer be stored; zero while they can.
    package var stalledFor: Duration { applyStall.time(now: now()) }

    func reached() { if reach.answered() { settings.report(.reachable) } }

    func missed(_ error: LogError) {
        // The node ends: the log is not at fault.
        if Task.isCancelled { return }
        if reach.missed(error.description, now: now()) { settings.report(.unreachable(error.description)) }
    }
}

/// State of a node's upkeep of the log.
struct LogUpkeep {
    var contentSweep = ContentSweep()
    /// Newest log metadata for which the replica and the log agree on the numbers that were given away.
    var floored: LogMetadata?
}
