package import StalecastRecords
package import StalecastStore
import StalecastWire

extension StoreError {
    /// The error for a publisher whose version is in the log already: a failed read must not say that nothing was
    /// committed.
    package func afterLanding(_ publish: PublishID) -> StoreError {
        if case .readFailed = self { .outcomePending(publish: publish.description) } else { self }
    }
}

extension ClusterNode: VersionAuthority {
    /// A publish under way.
    struct Run {
        var proposer: Proposer
        let pending: Candidate
        /// nil once its publisher has an answer.
        var publisher: CheckedContinuation<Result<StoredVersion, StoreError>, Never>?
        var version: StoredVersion?
        var refusal: StoreError?
        /// Chunks of the present draft's content, when it is long.
        var chunks: [[UInt8]] = []
        /// Session of the follower when it was proposed last.
        var session = 0
    }

    /// Publishes under way, and what is remembered of them.
    struct Publishes {
        var runs: [PublishID: Run] = [:]
        /// Publishes that turned out as not committed after their publisher was told that the outcome is unknown.
        var failures: [PublishID] = []
        /// Bytes that each scope brought into the log.
        var budget = LogBudget()
        /// True while a publish has the turn; the others wait in `queue`.
        var isProposing = false
        var queue: [CheckedContinuation<Void, Never>] = []

        /// Whether publishers wait for an answer.
        var isAwaited: Bool { runs.values.contains { $0.publisher != nil } }
    }

    /// Appends one publish of this node at a time: two would only compete for the next place in the log.
    package func commit(_ pending: Candidate) async throws(StoreError) -> StoredVersion {
        let publish = pending.idempotencyKey.map { PublishID(of: $0, using: &random) } ?? .random(using: &random)
        let proposer = Proposer(publish, now: now())
        await takeTurn()
        defer { giveTurn() }
        if let refusal { throw refusal }
        // A request that was sent again must not be proposed twice.
        if let other = publishes.runs.keys.first(where: { $0.isSameRequest(as: publish) }) {
            throw .outcomePending(publish: other.description)
        }
        let left = proposer.deadline - now()
        if left <= .zero { throw .unavailable(lateness) }
        // Another node may have committed the request under this key already.
        let mustCatchUp = pending.idempotencyKey != nil
        let isBehind = mustCatchUp ? await catchUp(within: min(.seconds(2), left)) != true : false
        if let refusal { throw refusal }
        if isBehind {
            throw .unavailable("the log of the cluster cannot be read now; nothing was committed; try again")
        }
        return try await withCheckedContinuation { continuation in
            publishes.runs[publish] = Run(proposer: proposer, pending: pending, publisher: continuation)
            keepTime()
            drive(publish) { proposer, _ in proposer.begin() }
        }.get()
    }

    private func takeTurn() async {
        guard publishes.isProposing else { return publishes.isProposing = true }
        await withCheckedContinuation { publishes.queue.append($0) }
    }

    private func giveTurn() {
        if publishes.queue.isEmpty { publishes.isProposing = false } else { publishes.queue.removeFirst().resume() }
    }

    private func drive(_ publish: PublishID, _ fact: (inout Proposer, Duration) -> Proposer.Action?) {
        guard var run = publishes.runs[publish] else { return }
        let action = fact(&run.proposer, now())
        publishes.runs[publish] = run
        switch action {
        case nil: break
        case .prepare: work.begin { await $0.prepare(publish) }
        case .catchUp:
            work.begin { node in
                let isDone = await node.catchUp(within: .seconds(2)) ?? false
                node.drive(publish) { $0.caughtUp(isDone, now: $1) }
            }
        case .append(let draft): work.begin { await $0.append(draft) }
        case .pause(let time):
            work.begin { node in
                // Cancelled: the publisher was answered.
                try? await Task.sleep(for: time)
                node.drive(publish) { $0.pauseEnded(now: $1) }
            }
        case .offer(let entry):
            // The entry is another node's, under the same idempotency key.
            if publishes.runs[publish]?.version?.change != entry.change { publishes.runs[publish]?.version = nil }
            perform(follower.offered(entry, in: run.session))
            moved()
        case .answer(let answer): self.answer(publish, answer)
        case .resolve(let isCommitted): resolve(publish, isCommitted)
        }
    }

    /// Tells every publish how far the replica has come.
    func moved() {
        guard let epoch = follower.epoch else { return }
        let head = follower.head.sequence
        for publish in publishes.runs.keys { drive(publish) { $0.applied(head, of: epoch, now: $1) } }
    }

    private func prepare(_ publish: PublishID) async {
        guard let pending = publishes.runs[publish]?.pending else { return }
        guard follower.isReady, let logMetadata = follower.logMetadata else {
            return drive(publish) { $0.prepared(.unready, now: $1) }
        }
        let head = follower.head
        do throws(StoreError) {
            if pending.idempotencyKey != nil, let version = try await recall(publish, pending) {
                return answer(publish, .success(version))
            }
            guard let (drafted, releases, isStep) = try await draft(pending, publish) else { return }
            // Older nodes cannot read an entry with a release, and would stop at it.
            guard releases.isEmpty || logMetadata.minimumVersion >= LogMetadata.formatOfReleases else {
                throw .clusterWithoutReleases
            }
            let size = isStep ? 0 : drafted.content.count
            guard size <= LogEntry.maxContent else { throw .contentTooLarge(size, most: LogEntry.maxContent) }
            // Rollbacks and steps of a release need no room: the way back must stay open.
            guard isStep || pending.isRollback || publishes.budget.hasRoom(for: size, of: drafted.scope, now: now())
            else {
                throw .logFull(drafted.scope)
            }
            // Entries were applied while the draft was made.
            guard drafted.change.sequence == head.sequence + 1 else {
                return drive(publish) { $0.prepared(.unready, now: $1) }
            }
            let window = settings.fetchWindow(drafted.scope, drafted.change.notes.isUrgent)
            var change = drafted.change
            change.notes.fetchWindowMs = window
            // The version in the form in which every node applies it.
            let version = StoredVersion(change: change, template: drafted.template, content: drafted.content)
            let (content, chunks): (LogEntry.Content, [[UInt8]]) =
                isStep ? (.absent, []) : await Self.packed(version.content)
            let entry = LogEntry(
                change: change, releases: releases, publish: publish, after: head, node: name,
                fetchWindowMs: Int64(window), content: content)
            publishes.runs[publish]?.version = version
            publishes.runs[publish]?.chunks = chunks
            drive(publish) { $0.prepared(.draft(Proposer.Draft(entry: entry, logMetadata: logMetadata)), now: $1) }
        } catch {
            publishes.runs[publish]?.refusal = error
            drive(publish) { $0.prepared(.refused, now: $1) }
        }
    }

    /// Version that was made earlier under this identity; nil: none is known.
    ///
    /// - Throws: ``StoreError/keyReused(_:)`` when that version is not the one this request asks for.
    private func recall(_ publish: PublishID, _ pending: Candidate) async throws(StoreError) -> StoredVersion? {
        guard let made = try await store.made(by: publish.description) else { return nil }
        guard let version = made.version, pending.idempotencyKey == nil || pending.isFulfilled(by: version) else {
            throw .keyReused(made.number)
        }
        return version
    }

    /// nil when there is nothing to commit; the publisher has its answer then.
    private func draft(
        _ pending: Candidate, _ publish: PublishID
    ) async throws(StoreError) -> (StoredVersion, [Release], isStep: Bool)? {
        switch try await store.draft(pending) {
        case .next(let version, let releases): return (version, releases, false)
        case .step(let version, let release): return (version, [release], true)
        case .isCurrent(let version):
            answer(publish, .success(version))
            return nil
        }
    }

    /// Packing a large content takes long enough to keep it off the actor.
    @concurrent
    private static func packed(_ content: [UInt8]) async -> (LogEntry.Content, [[UInt8]]) {
        LogEntry.storing(content)
    }

    private func append(_ draft: Proposer.Draft) async {
        let publish = draft.entry.publish
        publishes.runs[publish]?.session = follower.session
        let result: Result<Appended, LogError>
        do throws(LogError) {
            if case .beside(let key) = draft.entry.content {
                // Nothing names the chunks yet, so a failure here leaves nothing committed.
                do throws(LogError) { try await log.store(publishes.runs[publish]?.chunks ?? [], of: key) } catch {
                    throw .notDone(error.description)
                }
            }
            let owner = publishes.runs[publish]?.pending.ownership.map {
                (RecordName(AssignmentService.kind, $0.assignment), $0.token)
            }
            let appended = try await log.append(draft.entry, under: draft.logMetadata, owner: owner)
            if case .deposed = appended {
                publishes.runs[publish]?.refusal = .unavailable("another node has this work now; nothing was committed")
            }
            result = .success(appended)
            reached()
        } catch {
            result = .failure(error)
            missed(error)
        }
        figures.count(result, of: publish)
        drive(publish) { $0.appended(result, now: $1, chance: &random) }
    }

    private func answer(_ publish: PublishID, _ answer: Proposer.Answer) {
        guard let run = publishes.runs[publish] else { return }
        switch answer {
        case .committed:
            guard let version = run.version else {
                return work.begin { await $0.answerMade(publish, run.pending) }
            }
            self.answer(publish, .success(version))
        case .refused: self.answer(publish, .failure(run.refusal ?? .unavailable("nothing was committed")))
        case .notCommitted: self.answer(publish, .failure(refusal ?? .unavailable(lateness)))
        case .unknown:
            figures.unknownPublishes += 1
            // The run goes on until the log says the outcome; its continuation must not be resumed a second time.
            publishes.runs[publish]?.publisher = nil
            run.publisher?.resume(returning: .failure(.outcomePending(publish: publish.description)))
        }
    }

    /// Answers with the stored version of this identity, which another node proposed.
    private func answerMade(_ publish: PublishID, _ pending: Candidate) async {
        do throws(StoreError) {
            guard let version = try await recall(publish, pending) else {
                throw .outcomePending(publish: publish.description)
            }
            answer(publish, .success(version))
        } catch {
            answer(publish, .failure(error.afterLanding(publish)))
        }
    }

    private func answer(_ publish: PublishID, _ result: Result<StoredVersion, StoreError>) {
        publishes.runs.removeValue(forKey: publish)?.publisher?.resume(returning: result)
    }

    private var lateness: String {
        "the log of the cluster did not take it in time\(reach.trouble.map { " (\($0))" } ?? ""); nothing was committed"
    }

    /// Answers every publisher at once and stops asking the log: a history that has ended gives no more answers.
    func endPublishes() {
        for publish in publishes.runs.keys { drive(publish) { proposer, _ in proposer.historyEnded() } }
    }

    /// Answers every publisher at once, because this node ends. Publishes that were reported as unknown stay unknown.
    func abandonPublishes() {
        // The others have their answer already.
        publishes.runs = publishes.runs.filter { $0.value.publisher != nil }
        endPublishes()
        // A publish that landed as another node's entry is answered by a job, and no job begins any more.
        for (publish, run) in publishes.runs {
            run.publisher?.resume(returning: .failure(.outcomePending(publish: publish.description)))
        }
        publishes.runs = [:]
    }

    func expirePublishes() {
        let time = now()
        for (publish, run) in publishes.runs where run.publisher != nil && run.proposer.deadline <= time {
            drive(publish) { $0.deadlinePassed(now: $1) }
        }
    }

    private static let keptFailures = 1000

    private func resolve(_ publish: PublishID, _ isCommitted: Bool?) {
        // A publish with an idempotency key may be sent again and land, so it is never remembered as not committed.
        let isKeyed = publishes.runs.removeValue(forKey: publish)?.pending.idempotencyKey != nil
        figures.resolved[isCommitted, default: 0] += 1
        if isCommitted == false, !isKeyed {
            publishes.failures.append(publish)
            if publishes.failures.count > Self.keptFailures { publishes.failures.removeFirst() }
        }
        settings.report(.resolved(publish, isCommitted: isCommitted))
    }

    // MARK: Asking later

    /// Outcome of a publish.
    package enum Outcome: Sendable {
        case committed(MadeVersion)
        /// This node still asks the log.
        case pending
        /// The publish is not in the log, and never will be.
        case notCommitted
        /// The log has no such publish, as far as this node knows.
        case unknown
    }

    package func outcome(of publish: PublishID) async throws(StoreError) -> Outcome {
        if publishes.runs.keys.contains(where: { $0.isSameRequest(as: publish) }) { return .pending }
        _ = await catchUp(within: .seconds(2))
        if let made = try await store.made(by: publish.description) { return .committed(made) }
        return publishes.failures.contains(publish) ? .notCommitted : .unknown
    }
}
