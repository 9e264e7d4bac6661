import Foundation
import StalecastClient
import Testing

/// The tables of intervals and throttling, with a moved clock.
@Suite struct FetchPolicyTests {
    private let server = LocalConfigServer(values: ["a": "1"])
    private let clock = TestClock()

    private func config(interval: TimeInterval? = nil) -> RemoteConfig {
        let config = StalecastApp.test(server, clock: clock).config
        if let interval {
            let settings = RemoteConfigSettings()
            settings.minimumFetchInterval = interval
            config.configSettings = settings
        }
        return config
    }

    @Test func theDefaultIntervalIsTwelveHours() async throws {
        let config = config()
        #expect(config.lastFetchStatus == .noFetchYet)
        #expect(config.lastFetchTime == nil)
        try await config.fetch()
        #expect(config.lastFetchTime == clock.now)
        clock.advance(by: 43199)
        try await config.fetch()
        #expect(server.fetchCount == 1)
        clock.advance(by: 1)
        try await config.fetch()
        #expect(server.fetchCount == 2)
    }

    /// Settings' interval, explicit interval, age at the second fetch, and whether the server is asked.
    @Test(
        arguments: [
            (nil, nil, 0.0, false), (nil, 0.0, 0.0, true), (0.0, nil, 0.0, true), (3600.0, nil, 3599.0, false),
            (3600.0, nil, 3600.0, true), (3600.0, 10.0, 9.0, false), (3600.0, 10.0, 10.0, true),
            (0.0, 3600.0, 100.0, false), (nil, 43200.0, 43201.0, true), (60.0, nil, -5.0, true),
        ] as [(TimeInterval?, TimeInterval?, TimeInterval, Bool)])
    func anExplicitIntervalGoesBeforeTheSettings(
        settings: TimeInterval?, explicit: TimeInterval?, age: TimeInterval, isAsked: Bool
    ) async throws {
        let config = config(interval: settings)
        try await config.fetch(withExpirationDuration: 0)
        clock.advance(by: age)
        if let explicit {
            try await config.fetch(withExpirationDuration: explicit)
        } else {
            try await config.fetch()
        }
        #expect(server.fetchCount == (isAsked ? 2 : 1))
        #expect(config.lastFetchStatus == .success)
    }

    @Test func aStaleFlagOverridesTheInterval() async throws {
        let app = StalecastApp.test(server, clock: clock)
        let config = app.config
        try await config.fetch()
        app.received(.stale(StaleNotice(version: server.publish(["a": "2"]))))
        #expect(config.isStale)
        try await config.fetch()
        #expect(!config.isStale)
        try await config.fetch()
        #expect(server.fetchCount == 2)
        try await config.activate()
        #expect(config["a"].stringValue == "2")
    }

    @Test func aFlagStaysUntilTheAnnouncedVersionIsThere() async throws {
        let app = StalecastApp.test(server, clock: clock)
        let config = app.config
        try await config.fetch()
        app.received(.stale(StaleNotice(version: 7)))
        try await config.fetch()
        #expect(config.isStale, "the server answered version 1, and 7 was announced")
        for version in 2...7 { server.publish(["a": "\(version)"]) }
        try await config.fetch()
        #expect(!config.isStale)
    }

    @Test(arguments: [429, 500, 502, 503, 504]) func someStatusesThrottle(status: Int) async throws {
        let config = config(interval: 0)
        try await config.fetch()
        server.outage = .status(status)
        let first = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
        #expect(first?.code == .throttled && first?.httpStatus == status, "on the call that met it, as Firebase")
        #expect(config.lastFetchStatus == .throttled)
        server.outage = nil
        let error = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
        #expect(error?.code == .throttled && error?.httpStatus == nil)
        #expect(error?.throttledEndTime == clock.now.addingTimeInterval(120))
        #expect(
            (error as NSError?)?.userInfo[RemoteConfigThrottledEndTimeInSecondsKey] as? Double
                == clock.now.timeIntervalSince1970 + 120)
        #expect(config.lastFetchStatus == .throttled)
        #expect(server.fetchCount == 2)
        clock.advance(by: 120)
        try await config.fetch()
        #expect(config.lastFetchStatus == .success)
    }

    @Test(arguments: [400, 401, 403, 404, 409, 501]) func otherStatusesDoNotThrottle(status: Int) async throws {
        let config = config(interval: 0)
        try await config.fetch()
        server.outage = .status(status)
        let error = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
        #expect(error?.code == .internalError)
        #expect(error?.httpStatus == status)
        server.outage = nil
        try await config.fetch()
        #expect(server.fetchCount == 3)
    }

    @Test func aFirstStartIsNeverThrottled() async throws {
        let config = config(interval: 0)
        server.outage = .status(503)
        for _ in 1...3 { await #expect(throws: RemoteConfigError.self) { try await config.fetch() } }
        #expect(server.fetchCount == 3)
        #expect(config.lastFetchStatus == .failure)
    }

    @Test func aFirstStartWaitsForAServerThatNamesThePause() async throws {
        let config = config(interval: 0)
        server.outage = .status(503, retryAfter: 3)
        for _ in 1...2 {
            let error = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
            #expect(error?.code == .throttled && error?.throttledEndTime == clock.now.addingTimeInterval(3))
        }
        #expect(server.fetchCount == 1)
        server.outage = nil
        clock.advance(by: 3)
        #expect(try await config.fetch() == .success)
    }

    @Test func noConnectionDoesNotThrottle() async throws {
        let config = config(interval: 0)
        try await config.fetch()
        server.outage = .unreachable
        let error = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
        #expect(error?.httpStatus == nil)
        server.outage = nil
        try await config.fetch()
        #expect(config.lastFetchStatus == .success)
    }

    @Test func pausesDoubleWhileBelowFourHours() {
        let pauses = (1...12).map(FetchThrottle.pause)
        #expect(pauses == [120, 240, 480, 960, 1920, 3840, 7680, 7680, 7680, 7680, 7680, 7680])
    }

    @Test func pausesAreSpreadFromHalfToOneAndAHalf() async throws {
        let config = config(interval: 0)
        try await config.fetch()
        server.outage = .status(503)
        var ends: [TimeInterval] = []
        for random in [0.0, 0.999, 0.5, 0.25] {
            clock.random = random
            await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
            let error = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
            let pause = try #require(error?.throttledEndTime).timeIntervalSince(clock.now)
            ends.append((pause * 10).rounded() / 10)
            clock.advance(by: pause)
        }
        #expect(ends == [60, 359.8, 480, 720])
    }

    @Test func retryAfterTakesThePlaceOfTheTable() async throws {
        let config = config(interval: 0)
        try await config.fetch()
        server.outage = .status(503, retryAfter: 7)
        await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
        let error = await #expect(throws: RemoteConfigError.self) { try await config.fetch() }
        #expect(error?.throttledEndTime == clock.now.addingTimeInterval(7))
    }

    @Test func freshnessIsCheckedBeforeThrottling() async throws {
        let config = config(interval: 3600)
        try await config.fetch()
        server.outage = .status(503)
        await #expect(throws: RemoteConfigError.self) { try await config.fetch(withExpirationDuration: 0) }
        #expect(try await config.fetch() == .success, "what was fetched is fresh enough")
        clock.advance(by: 100)
        await #expect(throws: RemoteConfigError.self) { try await config.fetch(withExpirationDuration: 60) }
        #expect(config.lastFetchStatus == .throttled)
    }

    @Test func throttlingOutlivesTheProcess() async throws {
        let directory = scratchDirectory()
        let config = StalecastApp.test(server, clock: clock, directory: directory).config
        try await config.fetch()
        server.outage = .status(429)
        await #expect(throws: RemoteConfigError.self) { try await config.fetch(withExpirationDuration: 0) }
        let reborn = StalecastApp.test(server, clock: clock, directory: directory).config
        let error = await #expect(throws: RemoteConfigError.self) {
            try await reborn.fetch(withExpirationDuration: 0)
        }
        #expect(error?.code == .throttled)
        #expect(server.fetchCount == 2)
    }

    @Test func anotherAppVersionOverridesIntervalAndThrottling() {
        var stored = StoredConfig()
        stored.lastFetchTime = clock.now
        stored.deviceContext = "1.0"
        stored.throttle.failed(at: clock.now, random: 0.5, retryAfter: nil)
        let decide = {
            FetchPolicy.decide(.app(interval: nil), settings: $0, stored: stored, context: $1, now: clock.now)
        }
        #expect(decide(100, "1.0") == .cached)
        #expect(decide(0, "1.0") == .throttled(until: clock.now.addingTimeInterval(120)))
        #expect(decide(100, "1.1") == .fetch)
        #expect(decide(0, "1.1") == .fetch)
    }

    @Test func aClockSetBackNeitherFreezesNorThrottlesForEver() {
        var stored = StoredConfig()
        stored.lastFetchTime = clock.now.addingTimeInterval(86400)
        stored.throttle.failed(at: clock.now.addingTimeInterval(86400), random: 0.5, retryAfter: nil)
        let decision = FetchPolicy.decide(
            .app(interval: nil), settings: 43200, stored: stored, context: "", now: clock.now)
        #expect(decision == .fetch)
    }
}
