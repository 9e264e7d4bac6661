import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Tests what nodes change in the log for all of them: retention, and the log metadata.
@Suite(.timeLimit(.minutes(5))) struct ClusterRulesTests {
    private let log = SharedMemoryLog()

    private var logMetadata: LogMetadata { log.state.withLock(\.logMetadata) }
    private var left: [CommitSequence] {
        log.state.withLock { $0.page(after: 0, limit: .max).entries.map(\.sequence) }
    }

    /// Reads an old page once, which is no other history.
    @Test func aStaleReadBeginsNoHistory() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        let stale = try await log.page(after: 1, limit: 100)
        _ = try await running.put("2")
        let epoch = logMetadata.epoch
        log.stale.withLock { $0 = stale }
        #expect(await running.node.catchUp(within: .seconds(120)) == true)
        #expect(log.stale.withLock { $0 == nil } && logMetadata.epoch == epoch)
        #expect(!running.reports.contains(.renewing))
        #expect(try await running.put("3").version == 3)
    }

    @Test func aLogThatLostItsEndGetsAnotherHistory() async throws {
        let running = try await Running("a", log)
        _ = try await running.put("1")
        let snapshot = log.state.withLock { $0 }
        _ = try await running.put("2")
        log.state.withLock { _ = $0.restore(snapshot) }
        _ = await running.node.catchUp(within: .seconds(1))
        try await eventually { running.reports.contains(.renewing) }
        #expect(logMetadata.epoch != snapshot.logMetadata.epoch && logMetadata.floors[.shared] == 2)
    }

    /// Brings a node that was away when a history began, and knows of more numbers than the one that began it.
    @Test func whoComesLaterTellsWhatWasGivenAway() async throws {
        let away = try await Running("away", log)
        let snapshot = log.state.withLock { $0 }
        for value in 1...3 { _ = try await away.put("\(value)") }
        var other: Running?
        let back = try await away.restarted(log) {
            log.state.withLock {
                _ = $0.restore(snapshot)
                _ = $0.amend($0.logMetadata, to: $0.logMetadata.renewed(.random()))
            }
            other = try await Running("other", log)
        }
        #expect(await back.node.catchUp(within: .seconds(120)) == true)
        #expect(logMetadata.floors[.shared] == 3)
        #expect(try await #require(other).put("4").version == 4)
    }

    /// Prunes all that a node has: there is nothing left to compare.
    @Test func whoWasAwayForTooLongBeginsAnew() async throws {
        let away = try await Running("away", log)
        _ = try await away.put("1")
        let back = try await away.restarted(log) {
            let other = try await Running("other", log)
            for value in 2...4 { _ = try await other.put("\(value)") }
            var rules = logMetadata
            rules.prunedBelow = 4
            #expect(try await log.prune([1, 2, 3], under: logMetadata, to: rules))
        }
        try await eventually { back.reports.contains(.foreignEpoch(logMetadata.epoch)) }
        let again = try await back.restarted(log)
        #expect(again.store.head() == 4)
        #expect(try await again.put("5").version == 5)
        #expect(!again.reports.contains(.foreignEpoch(logMetadata.epoch)))
    }

    @Test func aChangeOfTheLogMetadataOutlastsOthers() async throws {
        let running = try await Running("a", log)
        let epoch = logMetadata.epoch
        log.rivals.withLock { $0 = 3 }
        let renewed = try await running.node.renewEpoch()
        #expect(renewed.epoch != epoch && renewed == logMetadata && renewed.prunedBelow == 4)
        log.rivals.withLock { $0 = .max }
        await #expect(throws: LogError.self) { try await running.node.renewEpoch() }
        #expect(logMetadata.epoch == renewed.epoch)
    }

    /// A scope that is published seldom lets go of its old versions long after the others.
    @Test func whatIsLetGoLaterIsPruned() async throws {
        let running = try await Running("a", log, maxVersions: 1)
        _ = try await running.put("first", scope: .quiet)
        for value in 1...3 { _ = try await running.put("\(value)") }
        #expect(try await running.node.prune() == 0, "they are young")
        running.later.time.withLock { $0 = .seconds(3601) }
        #expect(try await running.node.prune() == 2)
        #expect(left == [1, 4])
        #expect(try await running.node.prune() == 0, "what is gone is not looked at again")
        _ = try await running.put("second", scope: .quiet)
        #expect(try await running.node.prune() == 1)
        #expect(left == [4, 5])
    }

    @Test func pruningGoesOnUnderItsOwnLogMetadata() async throws {
        let running = try await Running("a", log, maxVersions: 1)
        for value in 1...150 { _ = try await running.put("\(value)") }
        running.later.time.withLock { $0 = .seconds(3601) }
        #expect(try await running.node.prune() == 100)
        #expect(try await running.node.prune() == 49)
        #expect(left == [150])
    }
}
