import Foundation
import StalecastClient
import StalecastTestSupport
import Synchronization
import Testing

/// An answer older than what is held: of a server that lags, or of a store that was restored.
@Suite struct OlderAnswerTests {
    private let clock = TestClock()
    private let server = LocalConfigServer(values: ["a": "1"])
    private let directory = scratchDirectory()

    /// An app that has version 3 of ``server`` active.
    private func appAtThree(edit: @escaping (inout StalecastOptions) -> Void = { _ in }) async throws -> StalecastApp {
        server.publish(["a": "2"])
        server.publish(["a": "3"])
        let app = StalecastApp.test(server, clock: clock, directory: directory, edit: edit)
        try await app.config.fetchAndActivate()
        #expect(app.config.activeVersion == 3)
        return app
    }

    /// Value that the app has in force after a fetch that asks the server.
    private func fetched(_ app: StalecastApp) async throws -> String {
        #expect(try await app.config.fetch(withExpirationDuration: 0) == .success)
        try await app.config.activate()
        return app.config["a"].stringValue
    }

    @Test func aPlainFetchFromALaggingServerKeepsWhatIsHeld() async throws {
        let problems = Mutex<[StalecastProblem]>([])
        let app = try await appAtThree { $0.onProblem = { problem in problems.withLock { $0.append(problem) } } }
        defer { app.delete() }
        server.lag = 2
        #expect(try await fetched(app) == "3")
        server.lag = 1
        clock.advance(by: 299)
        #expect(try await fetched(app) == "3")
        #expect(app.config.fetchedVersion == 3 && app.config.lastFetchStatus == .success)
        let told: [StalecastProblem] = [.olderAnswer(version: 1, held: 3), .olderAnswer(version: 2, held: 3)]
        try await eventually { problems.withLock { $0 } == told }
        server.lag = 0
        server.publish(["a": "4"])
        #expect(try await fetched(app) == "4")
    }

    @Test func nothingButOlderAnswersForFiveMinutesAreTaken() async throws {
        let app = try await appAtThree()
        defer { app.delete() }
        server.lag = 2
        #expect(try await fetched(app) == "3")
        clock.advance(by: 300)
        #expect(try await fetched(app) == "1")
        #expect(app.config.activeVersion == 1)
    }

    @Test func theWaitOutlivesTheProcess() async throws {
        let app = try await appAtThree()
        server.lag = 1
        #expect(try await fetched(app) == "3")
        app.delete()
        clock.advance(by: 300)
        let reborn = StalecastApp.test(server, clock: clock, directory: directory)
        defer { reborn.delete() }
        #expect(try await fetched(reborn) == "2")
    }

    @Test func aCurrentAnswerBetweenBeginsTheWaitAnew() async throws {
        let app = try await appAtThree()
        defer { app.delete() }
        for _ in 1...3 {
            server.lag = 1
            #expect(try await fetched(app) == "3")
            clock.advance(by: 200)
            server.lag = 0
            #expect(try await fetched(app) == "3")
        }
    }

    @Test func aMessageBeginsTheWaitAnew() async throws {
        let app = try await appAtThree()
        defer { app.delete() }
        server.lag = 1
        #expect(try await fetched(app) == "3")
        clock.advance(by: 299)
        app.received(.stale(StaleNotice(version: 4)))
        clock.advance(by: 2)
        #expect(try await fetched(app) == "3", "the message said that the store is not at version 2")
        #expect(app.config.isStale, "an older answer is not what the message announced")
        clock.advance(by: 300)
        #expect(try await fetched(app) == "2")
    }

    @Test func aClockSetBackBeginsTheWaitAnew() async throws {
        let app = try await appAtThree()
        defer { app.delete() }
        server.lag = 1
        #expect(try await fetched(app) == "3")
        clock.advance(by: -86400)
        #expect(try await fetched(app) == "3")
        clock.advance(by: 300)
        #expect(try await fetched(app) == "2")
    }

    @Test func anOlderAnswerDoesNotMakeWhatIsHeldFresh() async throws {
        let app = try await appAtThree()
        defer { app.delete() }
        let last = app.config.lastFetchTime
        clock.advance(by: 50000)
        server.lag = 1
        try await app.config.fetch()
        #expect(app.config.lastFetchTime == last)
        let asked = server.fetchCount
        try await app.config.fetch()
        #expect(server.fetchCount == asked + 1, "the next one asks again")
    }

    @Test func anOlderNoChangeDoesNotLowerTheVersion() async throws {
        // Version 3 went back to the content of version 1, which has the same ETag.
        let answers = [
            #"{"entries":{"a":"1"},"state":"UPDATE","templateVersion":"3"}"#,
            #"{"state":"NO_CHANGE","templateVersion":"1"}"#,
            #"{"entries":{"a":"2"},"state":"UPDATE","templateVersion":"2"}"#,
        ]
        let lagging = ScriptedTransport { _, before in .json(answers[before], etag: before == 2 ? "e2" : "e1") }
        let app = StalecastApp.test(lagging, clock: clock)
        defer { app.delete() }
        #expect(try await fetched(app) == "1")
        #expect(try await fetched(app) == "1")
        #expect(app.config.fetchedVersion == 3)
        #expect(try await fetched(app) == "1", "version 2 is older than version 3 also after other answers")
    }

    @Test func anotherServersVersionsAreTakenAtOnce() async throws {
        try await appAtThree().delete()
        let other = LocalConfigServer(values: ["a": "of another project"])
        let app = StalecastApp.test(other, clock: clock, directory: directory) { $0.project = "another" }
        defer { app.delete() }
        #expect(app.config["a"].stringValue == "3")
        try await app.config.fetch()
        try await app.config.activate()
        #expect(app.config["a"].stringValue == "of another project")
        #expect(other.fetchCount == 1, "the interval does not matter")
    }

    @Test func aDisownedCursorEndsTheWait() async throws {
        let app = try await appAtThree()
        defer { app.delete() }
        server.lag = 1
        #expect(try await fetched(app) == "3")
        app.received(.reset(reason: "unknown-epoch"))
        #expect(try await fetched(app) == "2")
    }

    // MARK: A version that never comes

    /// An app at version 3 that listens.
    private func listeningApp(_ heard: Heard) async throws -> StalecastApp {
        let app = try await appAtThree()
        app.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear)
        try await eventually { server.listenerCount == 1 }
        return app
    }

    /// Announces a version that the server does not have, and has the three attempts made.
    private func announceAbsentVersion(to app: StalecastApp) async throws {
        let before = server.fetchCount
        app.received(.stale(StaleNotice(version: 1000)))
        for attempt in 1...2 {
            try await eventually { server.fetchCount == before + attempt && clock.pending.count == 1 }
            clock.advance(by: 0.8)
        }
    }

    @Test func aVersionThatNeverComesHidesNoLaterOne() async throws {
        let heard = Heard()
        let app = try await listeningApp(heard)
        defer { app.delete() }
        try await announceAbsentVersion(to: app)
        try await eventually { heard.errors == [.notFetched] }
        server.publish(["a": "4"])
        try await eventually { heard.updates == [["a"]] }
        #expect(heard.errors == [.notFetched])
        #expect(app.config.isStale, "the announced version may still come")
        clock.advance(by: 300)
        try await app.config.fetch()
        #expect(!app.config.isStale, "the server had five minutes")
        try await app.config.fetch()
        #expect(server.fetchCount == 6)
    }

    @Test func whatCameInsteadIsTold() async throws {
        let heard = Heard()
        let app = try await listeningApp(heard)
        defer { app.delete() }
        server.losesMessages = true
        server.publish(["a": "4"])
        try await announceAbsentVersion(to: app)
        try await eventually { heard.updates == [["a"]] }
        #expect(heard.errors.isEmpty)
    }
}
