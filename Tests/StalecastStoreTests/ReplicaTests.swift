import Foundation
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// A store whose versions come from a log that it does not write.
@Suite struct ReplicaTests {
    let directory = try! TemporaryDirectory()
    let log = LogLines()
    private let epoch = Epoch.random()

    private func open(_ epoch: Epoch?, floors: NumberFloors = NumberFloors()) throws -> TemplateStore {
        var configuration = StoreConfiguration.make(directory)
        configuration.replica = .init(epoch: epoch)
        configuration.replica?.floors = floors
        return try TemplateStore.open(configuration, log: log.add)
    }

    /// A log of one node: what is drafted is applied at once.
    private final class Alone: VersionAuthority {
        let store: TemplateStore
        let refreshes = Mutex(0)

        init(_ store: TemplateStore) {
            self.store = store
            store.setAuthority(self)
        }

        func commit(_ pending: Candidate) async throws(StoreError) -> StoredVersion {
            switch try await store.draft(pending) {
            case .isCurrent(let version): return version
            case .next(let version, let releases):
                let publish = "publish-\(version.change.sequence)"
                try await store.apply([
                    .init(change: version.change, content: version.content, publish: publish, releases: releases)
                ])
                return version
            case .step(let version, let release):
                let publish = "publish-\(version.change.sequence)"
                try await store.apply([
                    .init(change: version.change, content: nil, publish: publish, releases: [release])
                ])
                return version
            }
        }

        func refresh() async -> Bool {
            refreshes.withLock { $0 += 1 }
            return true
        }
    }

    @Test func whatIsAppliedIsDurableVisibleAndAnnouncedInOrder() async throws {
        let folder = try TemporaryDirectory()
        defer { withExtendedLifetime(folder) {} }
        let source = try TemplateStore.make(folder)
        try await source.put(1...3)
        var shared: [SharedVersion] = []
        for number in 1...3 {
            let version = try #require(await source.version(VersionNumber(clamping: number), of: .demo))
            shared.append(.init(change: version.change, content: version.content, publish: "p\(number)"))
        }
        let store = try open(epoch)
        let heard = Mutex<[VersionNumber]>([])
        store.setCommitHandler { version in
            #expect(version.ready != nil)
            heard.withLock { $0.append(version.version) }
        }
        #expect(try store.replicaState() == ReplicaState(epoch: epoch, head: 0, publish: "", isWhole: false))
        try await store.apply(shared)
        try await store.becameWhole()
        #expect(heard.withLock { $0 } == [1, 2, 3])
        #expect(try await store.made(by: "p2")?.version?.version == 2)
        #expect(try await store.made(by: "p9") == nil)
        let again = await storeError { try await store.apply([shared[2]]) }
        #expect(again?.isOutcomeUnknown == false && store.head() == 3)
        let bad = SharedVersion(change: shared[2].change, content: Array("{".utf8), publish: "p4")
        #expect(await storeError { try await store.apply([bad]) } != nil)
        store.close()

        let reopened = try open(epoch)
        #expect(try reopened.replicaState() == ReplicaState(epoch: epoch, head: 3, publish: "p3", isWhole: true))
        #expect(reopened.currentTemplates[.demo]?.template.greeting == "3")
        #expect(log.all.isEmpty)
    }

    /// A node that has forgotten a key can let it land again; the others must not stop at that.
    @Test func anIdentityThatComesTwiceIsTheNewest() async throws {
        let folder = try TemporaryDirectory()
        defer { withExtendedLifetime(folder) {} }
        let source = try TemplateStore.make(folder)
        try await source.put(1...2)
        let store = try open(epoch)
        for number in 1...2 {
            let version = try #require(await source.version(VersionNumber(clamping: number), of: .demo))
            try await store.apply([.init(change: version.change, content: version.content, publish: "same")])
        }
        #expect(store.head() == 2)
        #expect(try await store.made(by: "same")?.number == 2)
    }

    @Test func publishesGoToTheAuthorityAndTimesGoForward() async throws {
        let authority = Alone(try open(epoch))
        let store = authority.store
        try await store.put(1...2)
        let (first, second) = (try await store.version(1, of: .demo), try await store.version(2, of: .demo))
        let times = try [#require(first), #require(second)].map(\.metadata.updateTime.microseconds)
        #expect(times[1] == times[0] + 1, "the clock stands still")
        #expect(try await store.rollback(.demo, to: 1).template.greeting == "1")
        let stale = Publish(scope: .demo, template: try .greeting("4"), precondition: .etag("etag-123456789012-1"))
        #expect(await storeError { try await store.publish(stale) } == .versionMismatch(expected: 1, found: 3))
        _ = try await store.current(.demo)
        #expect(authority.refreshes.withLock { $0 } == 1)
        let seen = Adoption(scope: .demo, template: try .greeting("1"))
        #expect(try await store.adopt(seen) == nil, "it is current")
    }

    @Test func anotherHistoryBeginsAnewAboveTheNumbersOfTheOldOne() async throws {
        let first = Alone(try open(epoch)).store
        try await first.put(1...5)
        try await first.becameWhole()
        first.close()
        let other = Epoch.random()
        let store = Alone(try open(other)).store
        #expect(store.epoch == other && store.head() == 0 && store.currentTemplates[.demo] == nil)
        #expect(try !store.replicaState().isWhole)
        #expect(FileManager.default.fileExists(atPath: directory.file("stalecast.sqlite.of-epoch-\(epoch)")))
        #expect(log.contains("begins anew"))
        #expect(try await store.put("clients hold a version 5").version == 6)
    }

    @Test func numbersThatTheLogGaveAwayBeforeAreNotGivenAgain() async throws {
        var floors = NumberFloors()
        floors.raise(.demo, to: 41)
        #expect(try await Alone(try open(epoch, floors: floors)).store.put("1").version == 42)
    }

    @Test func whatRetentionTookMayLeaveTheLogWhenItIsOld() async throws {
        let clock = TestClock()
        var configuration = StoreConfiguration.make(directory, clock: clock)
        configuration.replica = .init(epoch: epoch)
        configuration.maxVersionsPerScope = 2
        let store = Alone(try TemplateStore.open(configuration)).store
        try await store.put(1...4)
        try await store.put("other", in: .demoServer)
        let hour = Duration.seconds(3600)
        #expect(try await store.removed(olderThan: hour, limit: 9) == [])
        clock.advance(days: 1)
        #expect(try await store.removed(olderThan: hour, limit: 9) == [1, 2])
        #expect(try await store.removed(olderThan: hour, limit: 1) == [1])
        try await store.noteRemoved([1])
        #expect(try await store.removed(olderThan: hour, limit: 9) == [2])
        #expect(try await store.made(by: "publish-1")?.number == 1, "its key is known")
    }

    @Test func floorsThatItsOwnVersionsAreAboveSayNothing() async throws {
        let first = Alone(try open(epoch)).store
        try await first.put(1...3)
        first.close()
        // As one that was away for too long.
        let anew = Alone(try open(.random())).store
        #expect(try await anew.floors().above[.demo] == 3)
        try await anew.put("4")
        let (all, above) = try await anew.floors()
        #expect(above[.demo] == 0 && all[.demo] == 3)
    }

    @Test func aMigratedStoresVersionsMayLeaveTheLogToo() async throws {
        let clock = TestClock()
        var configuration = StoreConfiguration.make(directory, clock: clock)
        configuration.maxVersionsPerScope = 2
        let own = try TemplateStore.open(configuration)
        try await own.put(1...2)
        try await own.becomeReplica { "p\($0)" }
        own.close()
        configuration.replica = .init(epoch: own.epoch)
        let store = Alone(try TemplateStore.open(configuration)).store
        try await store.put("3")
        clock.advance(days: 1)
        #expect(try await store.removed(olderThan: .seconds(3600), limit: 9) == [1])
    }

    @Test func whatNeverCameToTheEndGoesOnUntilItIsDoubted() async throws {
        let first = Alone(try open(epoch)).store
        try await first.put(1...2)
        #expect(!TemplateStore.hasReplica(directory.path))
        first.close()
        let second = try open(epoch)
        #expect(try second.head() == 2 && !second.replicaState().isWhole)
        try await second.becamePartial()
        second.close()
        #expect(try open(epoch).head() == 0)
    }

    @Test func withoutTheLogAReplicaIsOpenedAsItIs() async throws {
        #expect(throws: StoreError.self) { try open(nil) }
        let first = Alone(try open(epoch)).store
        try await first.put("1")
        try await first.becameWhole()
        first.close()
        #expect(TemplateStore.hasReplica(directory.path))
        let store = try open(nil)
        #expect(store.epoch == epoch && store.head() == 1)
    }

    /// Bytes count, not characters.
    @Test func aVersionThatIsTooLargeForTheLogIsFound() async throws {
        let store = Alone(try open(epoch)).store
        try await store.put("short")
        let size = try #require(try await store.versions(after: 0, limit: 1).first).content.count
        try await store.put(String(repeating: "ё", count: 100))
        #expect(try await store.version(largerThan: size + 199) == nil)
        let found = try #require(try await store.version(largerThan: size + 150))
        #expect(found.scope == .demo && found.number == 2)
    }

    @Test func aStoreOfItsOwnIsNoReplica() async throws {
        let own = try TemplateStore.make(directory)
        try await own.put("1")
        own.close()
        #expect(throws: StoreError.self) { try open(epoch) }
        #expect(try TemplateStore.make(directory).epoch == own.epoch, "nothing was changed")
    }

    @Test func aReplicaThatLeavesHasAHistoryOfItsOwn() async throws {
        let replica = Alone(try open(epoch)).store
        try await replica.put(1...3)
        try await replica.becameWhole()
        replica.close()
        let own = try TemplateStore.make(directory, log: log)
        #expect(own.epoch != epoch && own.head() == 3)
        #expect(log.contains("left its cluster"))
        #expect(try await own.put("4").version == 4)
        own.close()
        #expect(try TemplateStore.make(directory).epoch == own.epoch)
    }
}
