import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Nodes with real stores over one log in memory: what the simulation shows of the machines holds for what drives them.
@Suite(.timeLimit(.minutes(5))) struct ClusterNodeTests {
    private let log = SharedMemoryLog()

    @Test func whatOneNodeTakesEveryNodeHasInTheSameOrder() async throws {
        let nodes = [try await Running("a", log), try await Running("b", log), try await Running("c", log)]
        try await withThrowingTaskGroup { group in
            for (number, running) in nodes.enumerated() {
                group.addTask { for value in 0..<20 { _ = try await running.put("\(number)-\(value)") } }
            }
            try await group.waitForAll()
        }
        for running in nodes {
            #expect(await running.node.catchUp(within: .seconds(120)) == true)
            #expect(running.store.head() == 60)
        }
        let late = try await Running("late", log)
        for number in 1...60 {
            var contents: Set<[UInt8]> = []
            for running in nodes + [late] {
                let version = try await running.store.version(VersionNumber(clamping: number), of: .shared)
                contents.insert(try #require(version).content)
            }
            #expect(contents.count == 1)
        }
    }

    @Test func ofOneETagAtAllNodesExactlyOneSucceeds() async throws {
        let nodes = [try await Running("a", log), try await Running("b", log)]
        var etag = try await nodes[0].put("first").etag
        for round in 0..<10 {
            let precondition = Publish.Precondition.etag(etag)
            let winners = await withTaskGroup(of: StoredVersion?.self, returning: [StoredVersion].self) { group in
                for running in nodes + nodes {
                    group.addTask { try? await running.put("\(round)", precondition) }
                }
                return await group.reduce(into: []) { if let version = $1 { $0.append(version) } }
            }
            #expect(winners.count == 1)
            etag = try #require(winners.first?.etag)
        }
    }

    /// Ends when a publish proves to be another node's entry: the look for it in the store is not begun.
    @Test func aStoppedNodeAnswersWhoWaitsForAnothersEntry() async throws {
        let (a, b) = (try await Running("a", log), try await Running("b", log))
        _ = try await a.put("1")
        log.cut.withLock { $0 = "a" }
        let publisher = Task { try await a.put("2", key: "k") }
        try await eventually { a.reports.contains { if case .unreachable = $0 { true } else { false } } }
        let queued = Task { await a.published("3") }
        _ = try await b.put("2", key: "k")
        try await eventually { a.store.head() == 2 }
        a.ends(at: .reachable)
        log.cut.withLock { $0 = nil }
        let answer = await publisher.result
        #expect { try answer.get() } throws: { if case StoreError.outcomePending = $0 { true } else { false } }
        guard case .failure(.unavailable) = await queued.value else {
            Issue.record("it has ended")
            return
        }
        await a.end()
    }

    /// Reads, appends and looks are under way at a log that does not answer, and nothing of the node outlives its run.
    @Test func aStoppedNodeHasNoTaskLeft() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        log.hanging.withLock { $0 = 0 }
        // The second one waits for its turn.
        let publishers = (2...3).map { value in Task { await running.published("\(value)") } }
        try await eventually { log.hanging.withLock { $0 ?? 0 } >= 1 }
        let readers = (0..<5).map { _ in Task { await running.node.isCurrent(within: .seconds(3600)) } }
        try await eventually { log.hanging.withLock { $0 ?? 0 } >= 2 }
        let late = Task { await running.node.catchUp(within: .seconds(3600)) }
        try await eventually { log.hanging.withLock { $0 ?? 0 } >= 3 }
        await running.end()
        #expect(log.hanging.withLock { $0 } == 0, "no call is left")
        for reader in readers + [late] { #expect(await reader.value == nil) }
        for publisher in publishers {
            switch await publisher.value {
            case .failure(.outcomePending), .failure(.unavailable): break
            case let other: Issue.record("\(other)")
            }
        }
        let blamesTheLog = running.reports.contains { if case .unreachable = $0 { true } else { false } }
        #expect(!blamesTheLog)
        // What comes now has its answer at once.
        #expect(await running.node.isCurrent(within: .seconds(3600)) == nil)
        guard case .failure(.unavailable) = await running.published("4") else {
            Issue.record("it has ended")
            return
        }
    }

    @Test func anUnknownOutcomeIsToldAndKnownLater() async throws {
        let running = try await Running("a", log)
        // It lands, and its answer comes later than a publisher waits.
        log.silence.withLock { $0 = true }
        let publishing = Task { try await running.put("1") }
        try await eventually { log.state.withLock(\.head).sequence == 1 }
        running.later.time.withLock { $0 += .seconds(10) }
        let error = await #expect(throws: StoreError.self) { _ = try await publishing.value }
        guard case .outcomePending(let publish)? = error else {
            Issue.record("another outcome")
            return
        }
        let id = try #require(PublishID(publish))
        if case .pending = try await running.node.outcome(of: id) {} else { Issue.record("it is asked still") }
        log.silence.withLock { $0 = false }
        try await eventually {
            guard case .committed(let made) = try await running.node.outcome(of: id) else { return false }
            return made.number == 1
        }
        try await eventually { running.reports.contains(.resolved(id, isCommitted: true)) }
    }

    @Test func aKeyMakesARepeatedPublishTheSameOne() async throws {
        var nodes = [try await Running("a", log), try await Running("b", log)]
        let first = try await nodes[0].put("1", key: "deploy-7")
        #expect(try await nodes[1].put("1", key: "deploy-7").isTold(as: first))
        #expect(try await nodes[1].put("1", key: "deploy-8").version == 2)
        nodes[0] = try await nodes[0].restarted(log)
        let again = try await nodes[0].put("1", .etag("etag-123456789012-0"), key: "deploy-7")
        #expect(again.isTold(as: first), "also after a restart, and although its If-Match is old by now")
        #expect(nodes[0].store.head() == 2)
    }

    @Test func aKeyStandsForOneRequest() async throws {
        let nodes = [try await Running("a", log), try await Running("b", log)]
        let first = try await nodes[0].put("1", key: "k")
        for running in nodes {
            await #expect(throws: StoreError.keyReused(1)) { _ = try await running.put("2", key: "k") }
        }
        _ = try await nodes[0].put("2")
        await #expect(throws: StoreError.keyReused(1)) {
            _ = try await nodes[1].rollback(to: 1, key: "k")
        }
        let rolledBack = try await nodes[0].rollback(to: 1, key: "r")
        let repeated = try await nodes[1].rollback(to: 1, key: "r")
        #expect(repeated.isTold(as: rolledBack))
        await #expect(throws: StoreError.keyReused(3)) {
            _ = try await nodes[1].rollback(to: 2, key: "r")
        }
        #expect(try await nodes[1].put("1", key: "k").isTold(as: first))
        #expect(nodes[1].store.head() == 3)
    }

    @Test func aPublishWhoseVersionIsGoneIsCommittedStill() async throws {
        let running = try await Running("a", log, maxVersions: 1)
        let first = try await running.put("1")
        _ = try await running.put("2")
        #expect(try await running.store.version(first.version, of: .shared) == nil)
        let publish = try #require(log.state.withLock(\.lineage).first?.publish)
        guard case .committed(let made) = try await running.node.outcome(of: publish) else {
            Issue.record("it is in the log")
            return
        }
        #expect(made.number == 1 && made.version == nil && made.scope == .shared)
    }

    @Test func aNumberThatAnotherNodeHasJustGivenIsAskedForInTheLog() async throws {
        let nodes = [try await Running("a", log), try await Running("b", log)]
        for number in 1...20 {
            let version = try await nodes[number % 2].put("\(number)").version
            #expect(try await nodes[1 - number % 2].store.version(version, of: .shared) != nil)
        }
        _ = try await nodes[0].put("last")
        let newest = try await nodes[1].store.versions(of: .shared, VersionQuery()).versions.map(\.number).first
        #expect(newest == 21, "heads are \(nodes.map { $0.store.head() })")
    }

    /// Restores, so that the key lands again behind the same head as before: the two entries are not one.
    @Test func whatLandsUnderOneKeyInTwoHistoriesIsToldApart() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        let snapshot = log.state.withLock(\.self)
        _ = try await running.put("old", key: "deploy-42")
        let lost = log.state.withLock(\.head)
        let back = try await running.restarted(log) {
            _ = log.state.withLock { $0.restore(snapshot) }
            _ = try await Running("b", log).put("new", key: "deploy-42")
        }
        let head = log.state.withLock(\.head)
        #expect(head.sequence == lost.sequence && head != lost)
        // It gives up a history that no other node has any more.
        try await eventually { back.reports.contains { if case .foreignEpoch = $0 { true } else { false } } }
    }

    @Test func anEntryThatCannotBeStoredAndIsRemovedHoldsNothingUp() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        let snapshot = log.state.withLock(\.self)
        _ = log.state.withLock { state in
            let last = state.lineage[0]
            // It has the number of the version before.
            let change = TemplateChange(
                scope: .shared, sequence: 2, metadata: last.change.metadata, etag: last.change.etag, changedKeys: nil)
            var random = SystemRandomNumberGenerator()
            let entry = LogEntry(
                change: change, publish: .random(using: &random), after: state.head, node: "", content: last.content)
            return state.append(entry, under: state.logMetadata, at: .zero, MemoryLog.Comparisons())
        }
        let node = running.node
        _ = await node.catchUp(within: .milliseconds(200))
        try await eventually { running.reports.contains { if case .cannotApply = $0 { true } else { false } } }
        log.state.withLock { $0 = snapshot }
        try await eventually { running.reports.contains(.appliesAgain) }
        #expect(try await running.put("2").version == 2)
    }

    @Test func aNewHistoryAnswersPublishersAtOnce() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        log.silence.withLock { $0 = true }
        async let first = running.published("2")
        async let second = running.published("3")
        try await eventually { log.state.withLock(\.head).sequence == 2 }
        log.state.withLock { state in _ = state.amend(state.logMetadata, to: state.logMetadata.renewed(.random())) }
        _ = await running.node.catchUp(within: .seconds(5))
        let outcomes = [await first, await second]
        #expect(running.later.time.withLock(\.self) == .zero)
        #expect(running.reports.contains { if case .foreignEpoch = $0 { true } else { false } })
        // The one in the log is unknown, the other was never sent.
        #expect(outcomes.count { if case .failure(.outcomePending) = $0 { true } else { false } } == 1)
        #expect(outcomes.count { if case .failure(.unavailable) = $0 { true } else { false } } == 1)
    }

    @Test func whatIsNotKnownToBeVerifiedIsOlderThanAnyLimit() async throws {
        let running = try await Running("a", log)
        #expect(await running.node.isCurrent(within: .seconds(120)) == true)
        #expect(await running.node.unverified < .seconds(60))
        running.store.noteVerified()
        // A node that was down for an hour; the log has not been asked yet.
        running.later.time.withLock { $0 += .seconds(3600) }
        let before = try #require(running.store.verifiedBefore)
        #expect(before >= .seconds(3600) && before < .seconds(3660))
        let new = try TemplateStore.open(StoreConfiguration(directory: try TemporaryDirectory().path))
        #expect(new.verifiedBefore == nil)
    }

    /// The version that it made is gone: a node cannot say any more whether this is the same request.
    @Test func aKeyWhoseVersionIsGoneIsUsedUp() async throws {
        let running = try await Running("a", log, maxVersions: 1)
        _ = try await running.put("1", key: "k")
        _ = try await running.put("2")
        await #expect(throws: StoreError.keyReused(1)) { _ = try await running.put("1", key: "k") }
    }

    /// Both propose before either knows of the other: what they store afterwards is one and the same.
    @Test(arguments: [true, false]) func ofOneKeyAtTwoNodesAtOnceOneLands(isSameRequest: Bool) async throws {
        let nodes = [try await Running("a", log), try await Running("b", log)]
        for round in 1...20 {
            let outcomes = await withTaskGroup(of: Result<StoredVersion, any Error>.self) { group in
                for (number, running) in nodes.enumerated() {
                    let value = isSameRequest ? "\(round)" : "\(round) of \(number)"
                    group.addTask {
                        do { return .success(try await running.put(value, key: "k\(round)")) } catch {
                            return .failure(error)
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let versions = outcomes.compactMap { try? $0.get() }
            #expect(Set(versions).count == 1 && versions.count == (isSameRequest ? 2 : 1), "\(outcomes)")
            let number = VersionNumber(clamping: round)
            for running in nodes {
                #expect(await running.node.catchUp(within: .seconds(120)) == true)
                #expect(try await running.store.version(number, of: .shared) == versions.first)
            }
        }
    }

    @Test func longContentsThatNoEntryNeedsAreSwept() async throws {
        let running = try await Running("a", log)
        var random = SeededRandom(seed: 5)
        let text = String(
            (0..<200_000).map { _ in "abcdefghijklmnopqrstuvwxyz0123456789".randomElement(using: &random)! })
        let long = try await running.put(text)
        let used = try #require(await log.contents().first)
        for digest in ["left", "begun"] { log.put([[1]], digest) }
        let left = Set(try await log.contents().map(\.digest))
        #expect(left == [used.digest, "left", "begun"])
        #expect(try await running.node.sweepContents() == 0, "seen for the first time")
        running.later.time.withLock { $0 = .seconds(300) }
        log.put([[1]], "begun")
        #expect(try await running.node.sweepContents() == 0)
        running.later.time.withLock { $0 = .seconds(620) }
        #expect(try await running.node.sweepContents() == 1)
        #expect(Set(try await log.contents().map(\.digest)) == [used.digest, "begun"])
        #expect(await running.node.figures.sweptContents == 1)
        let late = try await Running("late", log)
        #expect(try await late.store.version(1, of: .shared) == long)
        // The scope's next version needs it no more, but the entry is there until it is pruned.
        _ = try await running.put("short")
        running.later.time.withLock { $0 = .seconds(1300) }
        #expect(try await running.node.sweepContents() == 1)
        #expect(try await log.contents() == [used])
    }

    @Test func anotherHistoryIsReported() async throws {
        let nodes = [try await Running("a", log), try await Running("b", log)]
        for value in 1...3 { _ = try await nodes[0].put("\(value)") }
        let logMetadata = try await nodes[1].node.renewEpoch()
        #expect(logMetadata.floors[.shared] == 3)
        for running in nodes {
            try await eventually { running.reports.contains(.foreignEpoch(logMetadata.epoch)) }
        }
    }
}

extension StoredVersion {
    /// Alike but for the window over which fetches are spread, which no store keeps.
    fileprivate func isTold(as other: StoredVersion) -> Bool {
        change.metadata == other.change.metadata && change.sequence == other.change.sequence
            && change.etag == other.change.etag && content == other.content
    }
}
