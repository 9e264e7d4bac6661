import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests the answers of single machines, for which the simulation would need luck.
@Suite struct MachineTests {
    private var random = SeededRandom(seed: 1)
    private let logMetadata = LogMetadata(epoch: Epoch(String(repeating: "a", count: 26))!, revision: 1)

    private mutating func entry(after head: LogHead, content: [UInt8] = []) -> LogEntry {
        .next(after: head, content: content, &random)
    }

    /// A proposer whose first call is under way.
    private mutating func appending() -> (Proposer, Proposer.Draft) {
        let entry = entry(after: .empty)
        let draft = Proposer.Draft(entry: entry, logMetadata: logMetadata)
        var proposer = Proposer(entry.publish, now: .zero)
        _ = proposer.begin()
        guard case .append = proposer.prepared(.draft(draft), now: .zero) else { return (proposer, draft) }
        return (proposer, draft)
    }

    @Test mutating func anUnknownOutcomeIsAskedForWithTheSameDraft() {
        var (proposer, draft) = appending()
        guard case .pause = proposer.appended(.failure(.unknown("")), now: .zero, chance: &random),
            case .append(let again) = proposer.pauseEnded(now: .zero)
        else { return #expect(Bool(false)) }
        #expect(again.entry == draft.entry)
        guard case .offer = proposer.appended(.success(.taken(draft.entry)), now: .zero, chance: &random) else {
            return #expect(Bool(false))
        }
        guard case .answer(.committed(1)) = proposer.applied(1, of: logMetadata.epoch, now: .zero) else {
            return #expect(Bool(false))
        }
    }

    /// Two nodes propose under one key; the replica must take what is in the log.
    @Test mutating func anotherNodesEntryOfTheSameIdentityIsTheOneThatIsOffered() {
        var (proposer, draft) = appending()
        let other = LogEntry(
            change: draft.entry.change, publish: draft.entry.publish, after: .empty, node: "other",
            content: .inline([1]))
        guard case .offer(let offered) = proposer.appended(.success(.taken(other)), now: .zero, chance: &random) else {
            return #expect(Bool(false))
        }
        #expect(offered == other && offered != draft.entry)
    }

    @Test mutating func lateIsUnknownOnlyWhenSomethingWasSent() {
        var (sent, _) = appending()
        guard case .answer(.unknown) = sent.deadlinePassed(now: .seconds(10)) else { return #expect(Bool(false)) }
        var (refused, _) = appending()
        _ = refused.appended(.failure(.notDone("")), now: .zero, chance: &random)
        guard case .answer(.notCommitted) = refused.deadlinePassed(now: .seconds(10)) else {
            return #expect(Bool(false))
        }
    }

    /// A watch and a read that fail are one failure, in whichever order: else each pause is followed by more of them.
    @Test mutating func failuresDoNotAddUp() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        var open = follower.begin()
        var backoff = 0
        for _ in 0..<50 {
            while let index = open.indices.randomElement(using: &random) {
                switch open.remove(at: index) {
                case .watch(let session): open += follower.watchEnded(session)
                case .read(let id, _, _): open += follower.pageRead(id, .failure(.notDone("")))
                case .retry: backoff += 1
                default: break
                }
            }
            #expect(backoff == 1)
            for _ in 0..<backoff { open += follower.due() }
            backoff = 0
        }
    }

    /// Lands the entry by the deadline but does not apply it: that is known a moment later, and the run ends.
    @Test(arguments: [true, false]) mutating func whatLandedLateIsResolved(isThisHistory: Bool) {
        var (proposer, draft) = appending()
        guard case .offer = proposer.appended(.success(.committed), now: .seconds(9), chance: &random),
            case .answer(.unknown) = proposer.deadlinePassed(now: .seconds(10))
        else { return #expect(Bool(false)) }
        #expect(proposer.deadlinePassed(now: .seconds(10)) == nil)
        let epoch = isThisHistory ? draft.logMetadata.epoch : Epoch(String(repeating: "b", count: 26))!
        guard case .resolve(let isCommitted) = proposer.applied(1, of: epoch, now: .seconds(11)) else {
            return #expect(Bool(false))
        }
        #expect(isCommitted == (isThisHistory ? true : nil))
    }

    @Test mutating func aNewHistoryEndsEveryRun() {
        var (sent, _) = appending()
        guard case .answer(.unknown) = sent.historyEnded(), case .resolve(nil) = sent.historyEnded() else {
            return #expect(Bool(false))
        }
        #expect(sent.historyEnded() == nil)
        var (refused, _) = appending()
        _ = refused.appended(.failure(.notDone("")), now: .zero, chance: &random)
        guard case .answer(.notCommitted) = refused.historyEnded() else { return #expect(Bool(false)) }
    }

    @Test mutating func attemptsAtOneNameAreOneRequestAndTwoEntries() {
        let attempts = [PublishID(of: "k", using: &random), PublishID(of: "k", using: &random)]
        #expect(attempts[0] != attempts[1] && attempts[0].isSameRequest(as: attempts[1]))
        #expect(attempts[0].isSameRequest(as: PublishID(of: "k")), "as former programs named it")
        #expect(!attempts[0].isSameRequest(as: PublishID(of: "l")))
    }

    @Test mutating func aFailedReadAfterLandingDoesNotSayThatNothingWasCommitted() {
        let publish = PublishID.random(using: &random)
        let pending = StoreError.outcomePending(publish: publish.description)
        #expect(StoreError.readFailed("").afterLanding(publish) == pending)
        #expect(StoreError.keyReused(1).afterLanding(publish) == .keyReused(1))
    }

    @Test func aSilentLogIsNotWaitedForAfterTwoMisses() {
        var silence = LogSilence()
        // Many that waited together.
        for _ in 1...40 { silence.missed(since: .zero, now: .seconds(2)) }
        #expect(!silence.isOn)
        silence.missed(since: .seconds(2), now: .seconds(4))
        #expect(silence.isOn)
        silence.answered()
        #expect(!silence.isOn)
    }

    @Test func aScopeHasAShareOfTheLogForAnHour() {
        let (scope, other) = (
            Scope(project: .demo, namespace: .firebase), Scope(project: .demo, namespace: .firebaseServer)
        )
        var budget = LogBudget()
        for minute in 0..<64 { budget.note(LogBudget.most / 64, of: scope, now: .seconds(30 * minute)) }
        #expect(!budget.hasRoom(for: 1, of: scope, now: .seconds(32 * 60)))
        #expect(budget.hasRoom(for: LogBudget.most, of: other, now: .seconds(32 * 60)))
        #expect(!budget.hasRoom(for: LogBudget.most, of: scope, now: .seconds(90 * 60)))
        #expect(budget.hasRoom(for: LogBudget.most, of: scope, now: .seconds(92 * 60)))
    }

    @Test func aNodesRecordIsWrittenWhateverItsTopicsAreCalled() throws {
        var record = NodeRecord()
        for number in 0..<NodeRecord.maxTopics {
            let name = String(repeating: "t", count: 250) + String(10_000 + number)
            record.topics[try TopicName(name)] = Int64(number)
        }
        #expect(record.encoded.count < SharedRecord.maxBytes)
        let read = NodeRecord(record.encoded)
        #expect(read.topics.count > 100 && read.topics.values.max() == Int64(NodeRecord.maxTopics - 1))
    }

    @Test mutating func whoHasBeenAnsweredAsksLessOften() {
        var (proposer, _) = appending()
        guard case .pause(.milliseconds(50)) = proposer.appended(.failure(.unknown("")), now: .zero, chance: &random),
            case .append = proposer.pauseEnded(now: .zero),
            case .answer(.unknown) = proposer.deadlinePassed(now: .seconds(10)),
            case .pause(.seconds(2)) = proposer.appended(.failure(.unknown("")), now: .seconds(10), chance: &random)
        else { return #expect(Bool(false)) }
    }

    /// A log that can be read and takes nothing, as under a frozen log metadata, is not read again and again at once.
    @Test mutating func whoIsNotReadyWaits() {
        var proposer = Proposer(.random(using: &random), now: .zero)
        _ = proposer.begin()
        guard case .catchUp = proposer.prepared(.unready, now: .zero),
            case .prepare = proposer.caughtUp(true, now: .zero),
            case .pause = proposer.prepared(.unready, now: .zero)
        else { return #expect(Bool(false)) }
    }

    /// A replica that is ahead of its follower for a moment, each time another node was first, costs no pause.
    @Test mutating func whoIsNotReadyForAMomentReadsAtOnce() {
        var (proposer, draft) = appending()
        for _ in 1...2 {
            let other = entry(after: .empty)
            guard case .catchUp = proposer.appended(.success(.taken(other)), now: .zero, chance: &random),
                case .prepare = proposer.caughtUp(true, now: .zero),
                case .catchUp = proposer.prepared(.unready, now: .zero),
                case .prepare = proposer.caughtUp(true, now: .zero),
                case .append = proposer.prepared(.draft(draft), now: .zero)
            else { return #expect(Bool(false)) }
        }
    }

    /// Fails to apply what is no longer in the log: it is read anew, and no caller waits for what does not come.
    @Test mutating func whatCannotBeAppliedIsReadAnew() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        let entry = entry(after: .empty)
        guard case .read(let id, _, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        let page = LogPage(logMetadata: logMetadata, head: LogHead(of: entry), entries: [entry])
        guard case .apply? = follower.pageRead(id, .success(page)).first else { return #expect(Bool(false)) }
        #expect(follower.asked(7).isEmpty)
        guard case .caughtUp([7], isDone: false)? = follower.applyIsLate().first else { return #expect(Bool(false)) }
        guard case .retry? = follower.applyFailed().last else { return #expect(Bool(false)) }
        let again = follower.due()
        guard case .read(_, after: 0, _)? = again.last else { return #expect(Bool(false)) }
    }

    /// A second watch may be of another etcd than the one that stands: nothing is taken from both until a read.
    @Test mutating func nothingIsAppliedAfterAnotherWatchBeforeARead() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        guard case .read(let id, _, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        // Neither does it cost a read more at the beginning.
        #expect(follower.received(.opened, in: 1).isEmpty)
        let empty = LogPage(logMetadata: logMetadata, head: .empty, entries: [])
        guard case .read(let again, _, _)? = follower.pageRead(id, .success(empty)).first else {
            return #expect(Bool(false))
        }
        _ = follower.pageRead(again, .success(empty))
        #expect(follower.isReady)
        guard case .read(let third, _, _)? = follower.received(.opened, in: 1).first else {
            return #expect(Bool(false))
        }
        let entry = entry(after: .empty)
        #expect(follower.received(.entry(entry), in: 1).isEmpty && !follower.isReady)
        let page = LogPage(logMetadata: logMetadata, head: LogHead(of: entry), entries: [entry])
        guard case .apply([entry])? = follower.pageRead(third, .success(page)).first else {
            return #expect(Bool(false))
        }
    }

    /// A read may take a second over a long line, and answers with what the log was before.
    @Test mutating func whatRingsDuringAReadForCallersIsAppliedAtOnce() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        guard case .read(let id, _, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        let empty = LogPage(logMetadata: logMetadata, head: .empty, entries: [])
        _ = follower.pageRead(id, .success(empty))
        guard case .read(let asked, _, _)? = follower.asked(7).first else { return #expect(Bool(false)) }
        let first = entry(after: .empty)
        let second = entry(after: LogHead(of: first))
        guard case .apply([first])? = follower.received(.entry(first), in: 1).first else { return #expect(Bool(false)) }
        // The answer waits for what is being applied; the log ended where the replica was then.
        #expect(follower.pageRead(asked, .success(empty)).isEmpty)
        guard case .caughtUp([7], isDone: true)? = follower.applied().first else { return #expect(Bool(false)) }
        guard case .read(let other, after: 1, _)? = follower.asked(8).first else { return #expect(Bool(false)) }
        // Rules may have changed: nothing is applied before they are known.
        #expect(follower.received(.other, in: 1).isEmpty && follower.received(.entry(second), in: 1).isEmpty)
        let foreign = LogPage(logMetadata: logMetadata, head: LogHead(of: entry(after: .empty)), entries: [])
        guard case .renewEpoch? = follower.pageRead(other, .success(foreign)).last else { return #expect(Bool(false)) }
    }

    /// Reads without an answer may have asked for too much, or the line was cut: only a size that failed between two that
    /// were answered is tried with care.
    @Test func pagesGrowAtOnceAfterACutAndWithCareOnAThinLine() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        let empty = LogPage(logMetadata: logMetadata, head: .empty, entries: [])
        func limit(_ actions: [Follower.Action]) -> (id: Int, limit: Int) {
            for case .read(let id, _, let limit) in actions { return (id, limit) }
            return (0, 0)
        }
        /// Sizes of reads that fail or are answered.
        func sizes(_ count: Int, _ result: Result<LogPage, LogError>) -> [Int] {
            (0..<count).map { number in
                let read = limit(follower.asked(UInt64(number)) + follower.due())
                _ = follower.pageRead(read.id, result)
                return read.limit
            }
        }
        #expect(sizes(8, .failure(.unknown("cut"))) == [100, 50, 25, 12, 6, 3, 1, 1])
        #expect(sizes(7, .success(empty)) == [1, 2, 4, 8, 16, 32, 64])
        #expect(sizes(1, .failure(.unknown("too much"))) == [64])
        #expect(sizes(8, .success(empty)) == Array(repeating: 32, count: 8))
        #expect(sizes(2, .success(empty)) == [64, 100])
        #expect(sizes(2, .failure(.notDone("not sent"))) == [100, 100])
    }

    /// A log with a hole that retention did not make: it is named until it is gone.
    @Test mutating func aHoleIsNamed() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        let first = entry(after: .empty)
        let second = entry(after: LogHead(of: first))
        guard case .read(let id, _, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        let torn = LogPage(logMetadata: logMetadata, head: LogHead(of: second), entries: [second])
        guard case .retry? = follower.pageRead(id, .success(torn)).last else { return #expect(Bool(false)) }
        #expect(follower.hole == 1)
        guard case .read(let again, _, _)? = follower.due().last else { return #expect(Bool(false)) }
        let whole = LogPage(logMetadata: logMetadata, head: LogHead(of: second), entries: [first, second])
        guard case .apply? = follower.pageRead(again, .success(whole)).last else { return #expect(Bool(false)) }
        #expect(follower.hole == nil)
    }

    @Test mutating func aRequestThatKeepsFailingIsGivenUp() {
        var (proposer, _) = appending()
        _ = proposer.deadlinePassed(now: .seconds(10))
        _ = proposer.appended(.failure(.unknown("")), now: .seconds(599), chance: &random)
        guard case .resolve(nil) = proposer.pauseEnded(now: .seconds(600)) else { return #expect(Bool(false)) }
    }

    @Test mutating func aRefusalNeedsALookAtTheLog() {
        var proposer = Proposer(.random(using: &random), now: .zero)
        _ = proposer.begin()
        guard case .catchUp = proposer.prepared(.refused, now: .zero),
            case .prepare = proposer.caughtUp(true, now: .zero),
            case .answer(.refused) = proposer.prepared(.refused, now: .zero)
        else { return #expect(Bool(false)) }
    }

    @Test func fetchesShareALookThatBeganAfterThem() {
        var checks = HeadChecks()
        #expect(checks.asked(1, now: .zero) == .check)
        #expect(checks.asked(2, now: .milliseconds(1)) == nil)
        #expect(checks.asked(3, now: .milliseconds(2)) == nil)
        let released = checks.answered(.current, now: .milliseconds(2))
        #expect(released == [.release([1], isVerified: true), .wake(.milliseconds(3))])
        #expect(checks.asked(4, now: .milliseconds(3)) == nil)
        #expect(checks.due(now: .milliseconds(5)) == .check)
        #expect(checks.answered(.behind, now: .milliseconds(6)) == [.catchUp([2, 3, 4])])
        #expect(checks.asked(5, now: .milliseconds(20)) == .check)
        #expect(checks.answered(.unanswered, now: .milliseconds(21)) == [.release([5], isVerified: false)])
    }

    @Test mutating func aReplicaThatTheLogDoesNotHaveRenewsTheEpoch() {
        let lost = LogHead(of: entry(after: .empty))
        var follower = Follower(epoch: logMetadata.epoch, head: lost, isWhole: true)
        _ = follower.begin()
        guard case .read(let id, 1, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        let actions = follower.pageRead(id, .success(LogPage(logMetadata: logMetadata, head: .empty, entries: [])))
        #expect(actions.contains { if case .renewEpoch = $0 { true } else { false } })
        #expect(!follower.isReady)
    }

    /// Renews only where the log was seen to end: what was read may be of long ago.
    @Test mutating func theRenewalSaysWhereTheLogWasSeenToEnd() {
        let (own, other) = (LogHead(of: entry(after: .empty)), entry(after: .empty))
        var follower = Follower(epoch: logMetadata.epoch, head: own, isWhole: true)
        _ = follower.begin()
        guard case .read(let id, 1, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        let actions = follower.pageRead(
            id, .success(LogPage(logMetadata: logMetadata, head: LogHead(of: other), entries: [])))
        guard case .renewEpoch(logMetadata, at: LogHead(of: other))? = actions.last else { return #expect(Bool(false)) }
        guard case .read? = follower.renewed().first else { return #expect(Bool(false)) }
    }

    /// A page may weigh more than one answer can bring in time.
    @Test mutating func whoGetsNoAnswerAsksForLess() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        var read = follower.received(.opened, in: 1).first
        func failed(_ error: LogError) -> Int? {
            guard case .read(let id, _, let limit)? = read else { return nil }
            _ = follower.pageRead(id, .failure(error))
            read = follower.due().first
            return limit
        }
        #expect([1, 2].map { _ in failed(.notDone("")) } == [100, 100], "nothing was sent")
        #expect((1...8).map { _ in failed(.unknown("")) } == [100, 50, 25, 12, 6, 3, 1, 1])
        // One at a time, each is followed by the next; the last page is not full.
        var (limits, head) = ([Int](), LogHead.empty)
        while case .read(let id, _, let limit)? = read, limits.count < 10 {
            limits.append(limit)
            let entries = (0..<limit).map { _ in
                let entry = entry(after: head)
                head = LogHead(of: entry)
                return entry
            }
            _ = follower.pageRead(id, .success(LogPage(logMetadata: logMetadata, head: head, entries: entries)))
            read = follower.applied().first
        }
        #expect(limits == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64])
    }

    @Test mutating func whatRingsOnAnEndedWatchIsNotTaken() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        guard case .read(let id, 0, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        _ = follower.pageRead(id, .success(LogPage(logMetadata: logMetadata, head: .empty, entries: [])))
        #expect(follower.isReady)
        _ = follower.watchEnded(1)
        #expect(follower.offered(entry(after: .empty), in: 1).isEmpty)
    }

    @Test mutating func whatRingsWhileTheLogCannotBeReadIsNotTaken() {
        var follower = Follower(epoch: logMetadata.epoch, head: .empty, isWhole: true)
        _ = follower.begin()
        guard case .read(let id, 0, _)? = follower.received(.opened, in: 1).first else { return #expect(Bool(false)) }
        _ = follower.pageRead(id, .success(LogPage(logMetadata: logMetadata, head: .empty, entries: [])))
        // The log metadata changed: it asks for a newer program.
        guard case .read(let id, 0, _)? = follower.received(.other, in: 1).first else { return #expect(Bool(false)) }
        _ = follower.pageRead(id, .failure(.unreadable("upgrade it")))
        #expect(!follower.isReady)
        _ = follower.received(.entry(entry(after: .empty)), in: 1)
        #expect(!follower.due().contains { if case .apply = $0 { true } else { false } })
    }
}
