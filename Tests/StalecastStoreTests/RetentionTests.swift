import StalecastStore
import StalecastWire
import Testing

@Suite struct RetentionTests {
    let directory = try! TemporaryDirectory()
    let clock = TestClock()

    @Test func onlyTheNewestVersionsStayAndNumbersGoOn() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.maxVersionsPerScope = 5
        let store = try TemplateStore.open(configuration)
        try await store.put(1...5)
        #expect(try await store.numbers() == [5, 4, 3, 2, 1])
        try await store.put("6")
        #expect(try await store.numbers() == [6, 5, 4, 3, 2])
        #expect(await storeError { try await store.rollback(.demo, to: 1) } == .unknownVersion(1))
        store.close()
        #expect(try await TemplateStore.open(configuration).put("7").version == 7)
    }

    @Test func oldVersionsGoButTheActiveOneStays() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put("1")
        try await store.put("other", in: .demoServer)
        clock.advance(days: 1)
        try await store.put("2")
        clock.advance(days: 89)
        try await store.put("3")
        #expect(try await store.numbers() == [3, 2, 1])
        clock.advance(days: 1)
        try await store.put("4")
        #expect(try await store.numbers() == [4, 3, 2])
        clock.advance(days: 1000)
        try await store.put("5")
        #expect(try await store.numbers() == [5])
        #expect(try await store.numbers(of: .demoServer) == [1])
    }

    @Test func numberAndSequenceAreNotReusedWhenEverythingElseIsGone() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put(1...3)
        clock.advance(days: 1000)
        store.close()
        let reopened = try TemplateStore.make(directory, clock: clock)
        let version = try await reopened.put("4")
        #expect((version.version, version.change.sequence) == (4, 4))
    }

    @Test func sweepReachesScopesNobodyPublishesTo() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put(1...200)
        clock.advance(days: 91)
        store.beginSweep()
        // The writer's queue is first in, first out; a sweep of 64 queues the next one behind the publish.
        while try await store.numbers().count > 1 { try await store.put("x", in: .demoServer) }
        #expect(try await store.numbers() == [200])
        #expect(store.figures.removed >= 199)
    }
}
