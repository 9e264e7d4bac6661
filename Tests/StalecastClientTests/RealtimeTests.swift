import Foundation
import StalecastClient
import StalecastTestSupport
import Synchronization
import Testing

/// Tests the way from a message to a listener, with a server in the process and a clock that is moved.
@Suite struct RealtimeTests {
    private let server = LocalConfigServer(values: ["a": "1", "b": "1"])
    private let clock = TestClock()
    private let heard = Heard()

    /// An app that has version 1 active and listens.
    private func listeningApp() async throws -> StalecastApp {
        let app = StalecastApp.test(server, clock: clock)
        try await app.config.fetchAndActivate()
        app.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear)
        try await eventually { server.listenerCount == 1 }
        return app
    }

    @Test func aPublishReachesTheListenerAndCountsAfterActivation() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.publish(["a": "2", "b": "1"])
        try await eventually { heard.updates == [["a"]] }
        #expect(app.config["a"].stringValue == "1")
        #expect(try await app.config.activate())
        #expect(app.config["a"].stringValue == "2")
        #expect(!app.config.isStale)
        server.rollback(to: 1)
        try await eventually { heard.updates == [["a"], ["a"]] }
        try await app.config.activate()
        #expect(app.config["a"].stringValue == "1")
        #expect(app.config.activeVersion == 3)
    }

    @Test func aVersionThatChangesNothingIsSilent() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.publish(["a": "1", "b": "1"])
        try await eventually { app.config.fetchedVersion == 2 }
        server.publish(["a": "1", "b": "9"])
        try await eventually { !heard.updates.isEmpty }
        #expect(heard.updates == [["b"]])
    }

    @Test func keysAreComparedWithWhatIsActive() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.publish(["a": "2", "b": "1"])
        try await eventually { heard.updates.count == 1 }
        server.publish(["a": "2", "b": "2"])
        try await eventually { heard.updates == [["a"], ["a", "b"]] }
    }

    @Test func theFetchWaitsWithinTheHerdWindow() async throws {
        clock.random = 0.25
        let app = try await listeningApp()
        defer { app.delete() }
        server.publish(["a": "2"], fetchWindowMs: 8000)
        try await eventually { clock.pending == [2] }
        #expect(app.config.isStale)
        #expect(server.fetchCount == 1)
        clock.advance(by: 1.9)
        #expect(server.fetchCount == 1)
        clock.advance(by: 0.2)
        try await eventually { heard.updates == [["a", "b"]] }
        #expect(server.fetchCount == 2)
    }

    @Test func anUrgentMessageIgnoresTheWindow() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.publish(["a": "2", "b": "1"], fetchWindowMs: 60000, isUrgent: true)
        try await eventually { heard.updates == [["a"]] }
    }

    @Test func fetchesAreSpreadUniformlyOverTheWindow() async throws {
        let apps = (0..<16).map { StalecastApp.test(server, clock: clock, name: "app\($0)") }
        defer { for app in apps { app.delete() } }
        for app in apps { app.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear) }
        // What they fetch first is over.
        try await eventually { server.listenerCount == 16 && apps.allSatisfy { $0.config.fetchedVersion == 1 } }
        try await eventually { apps.allSatisfy { !$0.config.isStale } }
        for (index, app) in apps.enumerated() {
            clock.random = Double(index) / 16
            app.received(.stale(StaleNotice(version: 99, fetchWindowMs: 16000)))
        }
        // The first waits for nothing; the others for a second each.
        try await eventually { clock.pending.filter { $0 >= 1 }.count >= 15 }
        let waits = Set(clock.pending.map { $0.rounded() })
        #expect(waits.isSuperset(of: Set((1..<16).map(Double.init))))
    }

    /// Both messages decide on a timer, and the threads start them in either order.
    @Test func messagesAtTheSameMomentLoseNoTimer() async throws {
        clock.random = 0.5
        let app = try await listeningApp()
        defer { app.delete() }
        server.losesMessages = true
        for round in 1...100 {
            let newest = (server.publish(["a": "\(round)"]), server.publish(["a": "\(round)", "b": "2"])).1
            DispatchQueue.concurrentPerform(iterations: 2) { number in
                app.received(.stale(StaleNotice(version: newest - Int64(number), fetchWindowMs: 900)))
            }
            try await eventually("round \(round): the timer is not lost") {
                clock.advance(by: 1)
                return app.config.fetchedVersion == newest
            }
        }
    }

    @Test func aServerThatAnswersAnOldVersionIsAskedThreeTimes() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        app.received(.stale(StaleNotice(version: 5)))
        try await eventually { clock.pending.count == 1 }
        clock.advance(by: 0.2)
        try await eventually { server.fetchCount == 3 && clock.pending.count == 1 }
        clock.advance(by: 0.8)
        try await eventually { heard.errors == [.notFetched] }
        clock.advance(by: 3600)
        #expect(server.fetchCount == 4, "one at the start, three for the message, and no more")
        #expect(app.config.isStale)
        for version in 2...5 { server.publish(["a": "\(version)", "b": "1"]) }
        try await eventually { app.config.fetchedVersion == 5 }
        #expect(!app.config.isStale)
    }

    @Test func anOutageIsOutlived() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.outage = .unreachable
        server.publish(["a": "2", "b": "1"])
        for _ in 1...10 {
            try await eventually { clock.pending.count == 1 }
            clock.advance(by: 900)
        }
        server.outage = nil
        try await eventually { clock.pending.count == 1 || !heard.updates.isEmpty }
        clock.advance(by: 900)
        try await eventually { heard.updates == [["a"]] }
        #expect(heard.errors.isEmpty)
    }

    @Test func anOverloadedServerIsLeftAloneForAsLongAsItAsks() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.outage = .status(503, retryAfter: 30)
        server.publish(["a": "2", "b": "1"])
        try await eventually { server.fetchCount == 2 && clock.pending.count == 1 }
        clock.advance(by: 1)
        try await eventually("29 s until the end, and a spread of up to one") { clock.pending == [29.5] }
        #expect(server.fetchCount == 2)
        server.outage = nil
        clock.advance(by: 30)
        try await eventually { heard.updates == [["a"]] }
    }

    @Test func whatWasMissedIsMadeUpForWhenTheConnectionReturns() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        let directory = scratchDirectory()
        let first = StalecastApp.test(server, clock: clock, directory: directory)
        try await first.config.fetchAndActivate()
        first.received(.stale(StaleNotice(version: 2)))
        first.delete()
        server.publish(["a": "2", "b": "1"])
        try await eventually("the flag outlives the process") {
            StalecastApp.test(server, clock: clock, directory: directory).config.isStale
        }
        let second = StalecastApp.test(server, clock: clock, directory: directory)
        defer { second.delete() }
        let late = Heard()
        second.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: late.hear)
        try await eventually {
            clock.advance(by: 2)
            return late.updates == [["a"]]
        }
    }

    @Test func aReplacedStoreMayStartOverItsVersions() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        for version in 2...9 { server.publish(["a": "\(version)", "b": "1"]) }
        try await eventually { app.config.fetchedVersion == 9 }
        let restored = LocalConfigServer(values: ["a": "restored"])
        let directory = try #require(app.options.cacheDirectory)
        try await app.config.activate()
        app.delete()
        let other = StalecastApp.test(restored, clock: clock, directory: directory)
        defer { other.delete() }
        #expect(other.config.activeVersion == 9)
        other.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear)
        other.received(.reset(reason: "unknown-epoch"))
        other.received(.stale(StaleNotice(version: 1)))
        try await eventually { other.config.fetchedVersion == 1 }
        try await other.config.activate()
        #expect(other.config["a"].stringValue == "restored")
    }

    @Test func aLaggingServerDoesNotTakeTheClientBack() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.publish(["a": "2", "b": "1"])
        try await eventually { app.config.fetchedVersion == 2 }
        try await app.config.activate()
        let lagging = ScriptedTransport { _, _ in
            .json(#"{"entries":{"a":"1"},"state":"UPDATE","templateVersion":"1"}"#, etag: "etag-old")
        }
        let directory = try #require(app.options.cacheDirectory)
        try await app.config.activate()
        app.delete()
        let other = StalecastApp.test(lagging, clock: clock, directory: directory)
        defer { other.delete() }
        other.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear)
        other.received(.stale(StaleNotice(version: 3)))
        try await eventually { lagging.received.count == 1 && !clock.pending.isEmpty }
        #expect(other.config.fetchedVersion == 2)
    }

    @Test func messagesOfOtherScopesAreNotOurs() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        app.received(.stale(StaleNotice(project: "other", namespace: "firebase", version: 50)))
        app.received(.stale(StaleNotice(project: "demo", namespace: "firebase-server", version: 50)))
        app.received(.stale(StaleNotice(project: "demo", namespace: "firebase", version: 1)))
        #expect(!app.config.isStale)
        app.received(.stale(StaleNotice(project: "demo", namespace: "firebase", version: 2)))
        #expect(app.config.isStale)
    }

    @Test func aRemovedListenerHearsNothingAndClosesTheConnection() async throws {
        let app = StalecastApp.test(server, clock: clock)
        defer { app.delete() }
        try await app.config.fetchAndActivate()
        let kept = Heard()
        let registration = app.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear)
        let other = app.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: kept.hear)
        try await eventually { server.listenerCount == 1 }
        registration.remove()
        registration.remove()
        server.publish(["a": "2", "b": "1"])
        try await eventually { kept.updates == [["a"]] }
        #expect(heard.updates.isEmpty)
        other.remove()
        try await eventually { server.listenerCount == 0 }
    }

    @Test func updatesAreAnAsynchronousSequence() async throws {
        let app = StalecastApp.test(server)
        defer { app.delete() }
        try await app.config.fetchAndActivate()
        let task = Task { () -> [Set<String>] in
            var seen: [Set<String>] = []
            for try await update in app.config.configUpdates {
                seen.append(update.updatedKeys)
                try await app.config.activate()
                if seen.count == 2 { break }
                server.publish(["a": "2", "b": "3"])
            }
            return seen
        }
        try await eventually { server.listenerCount == 1 }
        server.publish(["a": "2", "b": "1"])
        #expect(try await task.value == [["a"], ["b"]])
        try await eventually { server.listenerCount == 0 }
    }

    @Test func aCancelledIterationEnds() async throws {
        let app = StalecastApp.test(server)
        defer { app.delete() }
        let task = Task {
            for try await _ in app.config.configUpdates {}
            return true
        }
        try await eventually { server.listenerCount == 1 }
        task.cancel()
        #expect(try await task.value)
        try await eventually { server.listenerCount == 0 }
    }

    @Test func problemsOfTheConnectionReachListeners() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        app.received(.unavailable)
        app.received(.invalidMessage("x"))
        for failures in 1...20 { app.received(.state(.waiting(failures: failures, reason: "refused"))) }
        try await eventually { heard.errors.count == 3 }
        #expect(heard.errors == [.unavailable, .messageInvalid, .streamError])
    }

    @Test func aListenerMayRemoveItselfWhenItsAppIsDeleted() async throws {
        let app = try await listeningApp()
        let ended = Mutex(0)
        do {
            let model = Model { ended.withLock { $0 += 1 } }
            model.registration = app.config.addOnConfigUpdateListener { _, _ in model.changed() }
            let other = Model { ended.withLock { $0 += 1 } }
            other.registration = app.config.addOnActivateListener { _ in other.changed() }
        }
        app.delete()
        #expect(ended.withLock { $0 } == 2)
    }

    @Test func aListenerMayRemoveAnotherWhenItIsRemoved() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        let ended = Mutex(0)
        let registration: ConfigUpdateListenerRegistration
        do {
            let model = Model { ended.withLock { $0 += 1 } }
            model.registration = app.config.addOnConfigUpdateListener { _, _ in }
            registration = app.config.addOnConfigUpdateListener { _, _ in model.changed() }
        }
        registration.remove()
        #expect(ended.withLock { $0 } == 1)
    }

    @Test func aFirebaseStreamThatIsBackMakesUpForWhatWasNotFetched() async throws {
        let app = try await listeningApp()
        defer { app.delete() }
        server.lag = 1
        server.publish(["a": "2", "b": "1"])
        for attempt in 2...3 {
            try await eventually { server.fetchCount == attempt && clock.pending.count == 1 }
            clock.advance(by: 0.8)
        }
        try await eventually { heard.errors == [.notFetched] }
        server.lag = 0
        app.received(.state(.open(transport: "firebase")))
        try await eventually { clock.pending.count == 1 }
        clock.advance(by: 2)
        try await eventually { heard.updates == [["a"]] }
    }
}
