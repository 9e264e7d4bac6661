import StalecastStore
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

    @Test func emptyScopeHasNoVersions() async throws {
        let store = try TemplateStore.make(directory)
        #expect(try await store.versions(of: .demo, VersionQuery()) == VersionPage(versions: [], next: nil))
        #expect(try store.recentChanges(of: .demo, limit: 10) == [])
    }
}
