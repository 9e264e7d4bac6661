import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct ReadingTests {
    let directory = try! TemporaryDirectory()
    let clock = TestClock()

    @Test func reopenedStoreHoldsTheSameVersions() async throws {
        let store = try TemplateStore.make(directory)
        let publish = Publish(
            scope: .demo, template: try .greeting("ünïcode \u{2028}"), precondition: .any, description: "d",
            user: UpdateUser(name: "n", email: "e", imageURL: "i"), origin: .adminSDKNode)
        let first = try await store.publish(publish)
        let second = try await store.put("two")
        store.close()
        let reopened = try TemplateStore.make(directory)
        #expect(reopened.epoch == store.epoch)
        #expect(reopened.head() == 2)
        #expect(try await reopened.version(1, of: .demo) == first)
        #expect(try await reopened.current(.demo) == second)
        #expect(try await reopened.version(3, of: .demo) == nil)
        #expect(try await reopened.version(1, of: .demoServer) == nil)
    }

    @Test func pagesFollowEachOtherWithoutGapOrRepeat() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...25)
        var found: [VersionNumber] = []
        var start: VersionNumber?
        repeat {
            let page = try await store.versions(of: .demo, VersionQuery(pageSize: 10, startingAt: start))
            found += page.versions.map(\.number)
            start = page.next
        } while start != nil
        #expect(found == Array(1...25).reversed())
    }

    @Test func startTimeIsInclusiveAndEndTimeExclusive() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        var times: [Timestamp] = []
        for value in 1...4 {
            times.append(clock.now)
            try await store.put("\(value)")
            clock.advance(days: 1)
        }
        let query = VersionQuery(startTime: times[1], endTime: times[3])
        #expect(try await store.versions(of: .demo, query).versions.map(\.number) == [3, 2])
        let upTo = VersionQuery(endVersion: 2)
        #expect(try await store.versions(of: .demo, upTo).versions.map(\.number) == [2, 1])
    }

    @Test func recentChangesComeOldestFirst() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...5)
        let changes = try store.recentChanges(of: .demo, limit: 3)
        #expect(changes.map(\.version) == [3, 4, 5])
        #expect(changes.last == store.currentTemplates[.demo]?.change)
    }

    @Test func missedChangesComeOldestFirstAndNoMoreThanAsked() async throws {
        let store = try TemplateStore.make(directory)
        for value in 1...6 {
            try await store.put("\(value)")
            try await store.put("\(value)", in: .demoServer)
        }
        // The scopes take turns: version 2 of the first has sequence 3.
        let some = try store.changes(of: .demo, after: 3, limit: 3)
        #expect(some.map(\.version) == [3, 4, 5] && some.map(\.sequence) == [5, 7, 9])
        #expect(try store.changes(of: .demo, after: 4, limit: 1).map(\.version) == [3])
        #expect(try store.changes(of: .demo, after: 0, limit: 100) == store.recentChanges(of: .demo, limit: 100))
        #expect(try store.changes(of: .demo, after: 11, limit: 100) == [])
        #expect(try store.changes(of: .demo, after: .max, limit: 100) == [])
        for sequence in UInt64(0)...12 {
            let all = try store.recentChanges(of: .demo, limit: 100).filter { $0.sequence > sequence }
            #expect(try store.changes(of: .demo, after: sequence, limit: 100) == all, "after \(sequence)")
        }
    }

    @Test func whatRetentionRemovedIsLeftOutOfMissedChanges() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.maxVersionsPerScope = 4
        let store = try TemplateStore.open(configuration, log: LogLines().add)
        try await store.put(1...20)
        let kept = try store.recentChanges(of: .demo, limit: 100)
        #expect(kept.count < 20)
        #expect(try store.changes(of: .demo, after: 0, limit: 100) == kept)
        #expect(try store.changes(of: .demo, after: 2, limit: 1) == Array(kept.prefix(1)))
        #expect(try store.changes(of: .demo, after: 19, limit: 100).map(\.version) == [20])
    }

    @Test func emptyScopeHasNoVersions() async throws {
        let store = try TemplateStore.make(directory)
        #expect(try await store.versions(of: .demo, VersionQuery()) == VersionQuery.Page(versions: [], next: nil))
        #expect(try store.recentChanges(of: .demo, limit: 10) == [])
        #expect(try store.changes(of: .demo, after: 0, limit: 10) == [])
    }
}
