import Foundation
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite struct ReleaseTests {
    let directory = try! TemporaryDirectory()
    let clock = TestClock()

    private func policy(_ members: JSONObject = [:]) throws -> ReleasePolicy {
        var members = members
        if members["stages"] == nil { members["stages"] = ["1%", "50%", "100%"] }
        return try ReleasePolicy(json: .object(members))
    }

    private func stage(
        _ value: String, on store: TemplateStore, _ members: JSONObject = [:], supersedes: Bool = false
    ) async throws -> StoredVersion {
        var publish = Publish(scope: .demo, template: try .greeting(value), precondition: .any)
        publish.staged = Publish.Staged(try policy(members), by: "key:ada")
        publish.supersedes = supersedes
        return try await store.publish(publish)
    }

    private func advance(seconds: Int64) {
        clock.set(Timestamp(microseconds: clock.now.microseconds + seconds * 1_000_000))
    }

    @Test func eachStageIsACommitWithASequenceOfItsOwn() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        let steps = Mutex<[ReleaseStep]>([])
        store.setReleaseHandler { step, _ in steps.withLock { $0.append(step) } }
        try await store.put("1")
        _ = try await stage("2", on: store, ["every": "1m", "bake": "1m"])
        #expect(store.head() == 2 && store.release(of: .demo)?.told == 100)
        _ = try await store.change(releaseOf: .demo, .proceed, ReleaseDecision(by: "schedule"))
        #expect(store.head() == 2, "nothing is due yet")
        for _ in 0..<3 {
            advance(seconds: 60)
            _ = try await store.change(releaseOf: .demo, .proceed, ReleaseDecision(by: "schedule"))
        }
        let release = try #require(store.release(of: .demo))
        #expect(release.state == .released && release.reached.map(\.sequence) == [2, 3, 4] && store.head() == 4)
        #expect(release.events.map(\.kind) == [.began, .advanced, .advanced, .released])
        #expect(steps.withLock { $0.map(\.kind) } == [.began, .reached, .reached, .noted])
        #expect(steps.withLock { $0.map(\.stages) } == [0..<1, 1..<2, 2..<3, 3..<3])
        #expect(try await store.put("3").change.sequence == 5)
    }

    @Test func aReleaseIsInItsStageAfterEveryRestartAndNeverFurther() async throws {
        var store = try TemplateStore.make(directory, clock: clock)
        func reopen() throws {
            let before = store.release(of: .demo)
            store.close()
            store = try TemplateStore.make(directory, clock: clock)
            #expect(store.release(of: .demo) == before)
        }
        try await store.put("1")
        _ = try await stage("2", on: store, ["every": "0s"])
        try reopen()
        _ = try await store.change(releaseOf: .demo, .pause, ReleaseDecision(by: "a", reason: "why"))
        try reopen()
        #expect(store.release(of: .demo)?.events.last?.reason == "why")
        _ = try await store.change(releaseOf: .demo, .promote, ReleaseDecision(by: "a"))
        try reopen()
        #expect(try await store.rollBack(releaseOf: .demo, ReleaseDecision(by: "b")).template.greeting == "1")
        try reopen()
        let release = try #require(store.release(of: .demo))
        #expect(release.state == .rolledBack && release.successor == 3 && release.told == 10_000)
    }

    @Test func aPublishIsRefusedWhileAReleaseIsOpenUnlessItSupersedesIt() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        #expect(await storeError { try await stage("1", on: store) } == .nothingToStageOver)
        try await store.put("1")
        _ = try await stage("2", on: store)
        #expect(await storeError { try await store.put("x") } == .releaseOpen(2))
        #expect(await storeError { try await stage("x", on: store) } == .releaseOpen(2))
        // Clients on version 2 would go back to version 1.
        guard case .releaseRefused = await storeError({ try await stage("x", on: store, supersedes: true) }) else {
            return #expect(Bool(false), "it was not refused")
        }
        #expect(try await store.numbers() == [2, 1])
        var publish = Publish(scope: .demo, template: try .greeting("3"), precondition: .any)
        publish.supersedes = true
        _ = try await store.publish(publish)
        #expect(store.release(of: .demo)?.state == .superseded)
        let ended = await storeError { try await store.change(releaseOf: .demo, .promote, ReleaseDecision(by: "a")) }
        #expect(ended == .noRelease(.demo))
        // A release that all clients have is no obstacle for the next.
        _ = try await stage("4", on: store)
        _ = try await store.change(releaseOf: .demo, .promote, ReleaseDecision(by: "a"))
        #expect(store.release(of: .demo)?.state == .baking)
        _ = try await stage("5", on: store, supersedes: true)
        #expect(store.release(of: .demo)?.version == 5 && store.release(of: .demo)?.base == 4)
        #expect(try await store.releases(of: .demo, limit: 9).map(\.version) == [5, 4, 2])
        #expect(try await store.releases(of: .demo, limit: 1).map(\.version) == [5])
        #expect(try await store.releases(of: .demoServer, limit: 9).isEmpty)
    }

    @Test func anOperatorTakesAReleaseExactlyOneStageOn() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put("1")
        _ = try await stage("2", on: store, ["stages": ["1%", "10%", "100%"], "every": "0s"])
        let first = try #require(store.release(of: .demo))
        #expect(first.told == 100 && first.nextStepAt == nil)
        let second = try await store.change(
            releaseOf: .demo, .advance, ReleaseDecision(by: "key:ada", reason: "it is well"))
        #expect(second.told == 1000 && second.state == .ramping)
        #expect(second.events.last?.kind == .advanced && second.events.last?.by == "key:ada")
        // A paused one too: the operator who takes it on has decided.
        _ = try await store.change(releaseOf: .demo, .pause, ReleaseDecision(by: "gate:loss"))
        let third = try await store.change(releaseOf: .demo, .advance, ReleaseDecision(by: "key:ada"))
        #expect(third.told == 10_000 && third.state == .baking)
        _ = try await store.change(releaseOf: .demo, .pause, ReleaseDecision(by: "key:ada"))
        let refusal = await storeError { try await store.change(releaseOf: .demo, .advance, ReleaseDecision(by: "a")) }
        guard case .releaseRefused = refusal
        else { return #expect(Bool(false), "there is no stage after the last") }
    }

    @Test func retentionKeepsTheBaseOfAnOpenRelease() async throws {
        var configuration = StoreConfiguration.make(directory, clock: clock)
        configuration.maxVersionsPerScope = 2
        let store = try TemplateStore.open(configuration)
        try await store.put(1...3)
        _ = try await stage("4", on: store)
        store.beginSweep()
        try await store.put("sweep", in: .demoServer)
        #expect(try await store.version(3, of: .demo) != nil)
        #expect(try await store.rollBack(releaseOf: .demo, ReleaseDecision(by: "a")).template.greeting == "3")
    }

    /// Copies the files at any moment, as `kill -9` leaves them: version and release are in it together, or neither.
    @Test func versionAndReleaseAreOneTransaction() async throws {
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put("1")
        let names = ["stalecast.sqlite", "stalecast.sqlite-wal", "stalecast.mark"]
        let before = try TemporaryDirectory()
        try directory.copy(names, to: before)
        _ = try await stage("2", on: store)
        let after = try TemporaryDirectory()
        try directory.copy(names, to: after)
        _ = try await store.change(releaseOf: .demo, .promote, ReleaseDecision(by: "a"))
        let later = try TemporaryDirectory()
        try directory.copy(names, to: later)
        store.close()
        for (copy, versions, told) in [(before, 1, nil), (after, 2, 100), (later, 2, 10_000)]
            as [(TemporaryDirectory, Int, Int?)]
        {
            let store = try TemplateStore.make(copy, clock: clock)
            let found = (try await store.numbers().count, store.release(of: .demo)?.told)
            #expect(found == (versions, told))
            store.close()
        }
    }

    @Test func aFailedCommitOfAStageReachesNoClient() async throws {
        FaultyFileSystem.install()
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put("1")
        _ = try await stage("2", on: store)
        let steps = Mutex(0)
        store.setReleaseHandler { _, _ in steps.withLock { $0 += 1 } }
        FaultyFileSystem.arm(directory.database + "-wal", .sync)
        let error = await storeError { try await store.change(releaseOf: .demo, .promote, ReleaseDecision(by: "a")) }
        FaultyFileSystem.disarm(directory.database + "-wal")
        #expect(error?.isOutcomeUnknown == true && steps.withLock { $0 } == 0)
        #expect(store.release(of: .demo)?.told == 100)
    }

    @Test func aBackupHasTheRelease() async throws {
        let shelf = try TemporaryDirectory()
        let store = try TemplateStore.make(directory, clock: clock)
        try await store.put("1")
        _ = try await stage("2", on: store)
        try store.backup(to: shelf.file("backup"))
        let restored = try TemporaryDirectory()
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: restored.path)
        #expect(try TemplateStore.make(restored, clock: clock).release(of: .demo) == store.release(of: .demo))
    }

    @Test(arguments: [
        #"{"stages":["1%","100%"],"every":"90s","bake":"0s","first":["qa-1"],"onTooLittle":"hold"}"#,
        #"{"anonymous":"address","gates":{"failed":"off","silent":"20%","loss":{"margin":"1%","return":"10s"}}}"#,
    ])
    func aPolicyIsReadBackAsItWasWritten(text: String) throws {
        let policy = try ReleasePolicy(json: JSONValue.parse(text.utf8))
        #expect(try ReleasePolicy(json: policy.json) == policy && policy != .standard)
    }

    @Test(arguments: [
        (#"{"stages":["10%","1%","100%"]}"#, "stages"), (#"{"stages":["1%"]}"#, "stages"),
        (#"{"stages":[]}"#, "stages"), (#"{"stages":["0%","100%"]}"#, "stages"), (#"{"every":"5"}"#, "every"),
        (#"{"bake":"31d"}"#, "bake"), (#"{"first":["a b"]}"#, "first"), (#"{"stage":["100%"]}"#, "stages"),
        (#"{"gates":{"loss":"0%"}}"#, "gates.loss"), (#"{"onTooLittle":"stop"}"#, "onTooLittle"),
    ])
    func aWrongPolicyIsRefusedByTheNameOfItsMember(text: String, name: String) throws {
        let json = try JSONValue.parse(text.utf8)
        let problem = #expect(throws: InvalidValue.self) { try ReleasePolicy(json: json) }
        #expect(problem?.description.contains(name) == true)
    }
}
