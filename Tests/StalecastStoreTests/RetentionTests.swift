import StalecastStore
import StalecastTestSupport
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

    @Test func versionsAreCountedAndNotTheirNumbers() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.maxVersionsPerScope = 3
        let store = try TemplateStore.open(configuration)
        for number in 1...5 {
            let number = VersionNumber(clamping: number * 1_000_000)
            _ = try await store.adopt(Adoption(scope: .demo, template: try .greeting("\(number)"), number: number))
        }
        #expect(try await store.numbers() == [5_000_000, 4_000_000, 3_000_000])
    }

    @Test func inABurstFewVersionsStayLonger() async throws {
        var configuration = StoreConfiguration.make(directory, clock: clock)
        configuration.maxVersionsPerScope = 161
        let store = try TemplateStore.open(configuration)
        for value in 1...200 {
            try await store.put("\(value)")
            #expect(store.figures.removed <= UInt64(max(0, value - 161)))
        }
        #expect((161...176).contains(try await store.numbers().count))
        #expect(store.figures.removed > 0)
        clock.advance(days: 1)
        try await store.put("201")
        #expect(try await store.numbers().count == 161)
    }

    /// A sweep is done when a publish that was handed in after it is.
    private func sweep(_ store: TemplateStore) async throws {
        store.beginSweep()
        try await store.put("sweep", in: .demoServer)
    }

    @Test func aVersionsAgeCountsFromItsSuccessor() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await sweep(store)
        try await store.put("1")
        clock.advance(days: 89)
        try await store.put("2")
        clock.advance(days: 2)
        try await store.put("3")
        #expect(try await store.numbers() == [3, 2, 1])
        clock.advance(days: 87)
        try await store.put("4")
        #expect(try await store.numbers() == [4, 3, 2, 1])
        clock.advance(days: 2)
        try await store.put("5")
        #expect(try await store.numbers() == [5, 4, 3, 2])
        clock.advance(days: 3)
        try await sweep(store)
        #expect(try await store.numbers() == [5, 4, 3])
    }

    @Test func theVersionBeforeTheNewestStaysWhateverItsAge() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await sweep(store)
        try await store.put(1...4)
        for _ in 0..<10 {
            clock.advance(days: 30)
            try await sweep(store)
        }
        #expect(try await store.numbers() == [4, 3])
        try await store.put("bad")
        #expect(try await store.rollback(.demo, to: 4).template.greeting == "4")
    }

    @Test func aClockThatJumpsAheadTakesNothingAway() async throws {
        let log = LogLines()
        let store = try TemplateStore.make(directory, clock: clock, log: log)
        try await store.put(1...40)
        clock.advance(days: 400)
        try await store.put("in the future")
        try await sweep(store)
        #expect(try await store.numbers().count == 41)
        #expect(log.all.count { $0.message.contains("the clock moved") } == 1)
        store.close()
        let reopened = try TemplateStore.make(directory, clock: clock)
        try await sweep(reopened)
        #expect(try await reopened.numbers().count == 41)
        clock.advance(days: -400)
        try await sweep(reopened)
        try await reopened.put("back again")
        #expect(try await reopened.numbers().count == 42)
    }

    @Test func aClockThatWasPutBackIsSaidOnce() async throws {
        let log = LogLines()
        let store = try TemplateStore.make(directory, clock: clock, log: log)
        try await store.put("1")
        clock.advance(days: -1)
        try await store.put("2")
        try await store.put("3")
        #expect(log.all.count { $0.message.contains("earlier time") } == 1)
    }

    @Test(arguments: [Int64.min, .max]) func noTimeIsTooFarAway(microseconds: Int64) async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put(1...2)
        clock.set(Timestamp(microseconds: microseconds))
        try await store.put("3")
        try await sweep(store)
        #expect(try await store.numbers() == [3, 2, 1])
        clock.advance(days: microseconds < 0 ? 1 : -1)
        try await sweep(store)
        #expect(try await store.numbers() == [3, 2, 1])
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

    @Test func sweepReachesScopesWithoutPublishes() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put(1...200)
        for _ in 0..<2 {
            clock.advance(days: 46)
            try await store.put("x", in: .demoServer)
        }
        store.beginSweep()
        // The writer's queue is first in, first out; a sweep of 64 queues the next one behind the publish.
        while try await store.numbers().count > 2 { try await store.put("x", in: .demoServer) }
        #expect(try await store.numbers() == [200, 199])
        #expect(store.figures.removed >= 198)
    }
}
