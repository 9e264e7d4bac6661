import Foundation
import StalecastClient
import StalecastTestSupport
import Synchronization
import Testing

/// The files that outlive the process.
@Suite struct CacheTests {
    private let server = LocalConfigServer(values: ["a": "1"])
    private let directory = scratchDirectory()

    /// The file of the default namespace of the app `test`.
    private var file: URL { directory.appendingPathComponent("test@firebase") }

    private func app(problems: Problems? = nil) -> StalecastApp {
        StalecastApp.test(server, directory: directory) { options in
            if let problems { options.onProblem = problems.add }
        }
    }

    private final class Problems: Sendable {
        private let all = Mutex<[StalecastProblem]>([])
        var list: [StalecastProblem] { all.withLock { $0 } }
        func add(_ problem: StalecastProblem) { all.withLock { $0.append(problem) } }
    }

    @Test func fetchedAndActiveSurviveApart() async throws {
        let first = app().config
        try await first.fetchAndActivate()
        server.publish(["a": "2"])
        try await first.fetch(withExpirationDuration: 0)
        let second = app().config
        #expect(second["a"].stringValue == "1")
        #expect(second.fetchedVersion == 2 && second.activeVersion == 1)
        #expect(second.lastFetchTime != nil && second.lastFetchStatus == .success)
        #expect(try await second.activate())
        #expect(app().config["a"].stringValue == "2")
    }

    @Test func theInstallationIsTheSameEverAfter() async throws {
        let first = app()
        try await first.config.fetch()
        try await PushMessaging.messaging(app: first).unsubscribe(fromTopic: "none")
        #expect(first.appInstanceID.count == 22)
        #expect("cdef".contains(first.appInstanceID.first ?? " "))
        let second = app()
        #expect(second.appInstanceID == first.appInstanceID)
        #expect(second.firstOpenTime == first.firstOpenTime)
        #expect(StalecastApp.test(server).appInstanceID != first.appInstanceID)
        #expect(StalecastApp.test(server) { $0.appInstanceID = "mine" }.appInstanceID == "mine")
    }

    @Test func namespacesAndAppsDoNotShare() async throws {
        let app = app()
        try await app.config.fetchAndActivate()
        let other = RemoteConfig.remoteConfig(app: app, namespace: "other")
        #expect(other["a"].source == .static)
        #expect(other !== app.config)
        #expect(RemoteConfig.remoteConfig(app: app, namespace: "firebase") === app.config)
        #expect(StalecastApp.test(server, directory: directory, name: "../test").config["a"].source == .static)
    }

    @Test func everyDamageLeadsToTheDefaults() async throws {
        try await app().config.fetchAndActivate()
        let whole = try Data(contentsOf: file)
        var damaged: [Data] = [Data(), Data("garbage".utf8), whole + Data([0x20])]
        for index in whole.indices {
            var bytes = whole
            bytes[index] ^= 1
            damaged.append(bytes)
        }
        for length in stride(from: 0, to: whole.count, by: 7) { damaged.append(whole.prefix(length)) }
        for bytes in damaged {
            try bytes.write(to: file)
            let problems = Problems()
            let config = app(problems: problems).config
            config.setDefaults(["a": "default"])
            #expect(config["a"].stringValue == "default")
            #expect(config.lastFetchStatus == .noFetchYet)
            try await eventually("the damage is reported") {
                if case .cacheDamaged(self.file.path, _)? = problems.list.first { true } else { false }
            }
        }
        let healed = app().config
        try await healed.fetchAndActivate()
        #expect(app().config["a"].stringValue == "1")
    }

    /// An app that reacts to a problem by using the SDK, at its first moment, has no lock to wait for.
    @Test(.timeLimit(.minutes(5)), arguments: ["installation", "firebase"])
    func aDamagedCacheIsReportedWhereTheAppMayUseTheSDK(file: String) async throws {
        let name = "damaged-\(UUID().uuidString)"
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try Data("garbage".utf8).write(to: directory.appendingPathComponent("\(name)@\(file)"))
        var options = StalecastOptions.local(server)
        options.cacheDirectory = directory
        let seen = Problems()
        options.onProblem = { problem in
            guard let app = Stalecast.app(name: name) else { return }
            _ = RemoteConfig.remoteConfig(app: app)["a"]
            seen.add(problem)
        }
        // A thread of its own: where it hangs, it hangs for ever.
        let isThere = Problems()
        Thread.detachNewThread { [options] in
            let app = Stalecast.configure(name: name, options: options)
            _ = RemoteConfig.remoteConfig(app: app)
            isThere.add(.unknownTopic(""))
        }
        try await eventually(within: .seconds(20)) { isThere.list.count == 1 && seen.list.count == 1 }
        Stalecast.app(name: name)?.delete()
    }

    /// Two workers of one service, or an app and its extension, share a directory.
    @Test func manyWritersOfOneFileLeaveItWhole() async throws {
        let problems = Problems()
        let apps = (0..<2).map { _ in app(problems: problems) }
        await withTaskGroup(of: Void.self) { group in
            for app in apps {
                group.addTask {
                    for number in 0..<30 {
                        _ = try? await app.config.setCustomSignals(["n": .integer(number)])
                        if number.isMultiple(of: 10) { _ = StalecastApp.test(server, directory: directory).config }
                    }
                }
            }
        }
        _ = app(problems: problems).config
        try await app(problems: problems).config.setCustomSignals([:])
        #expect(problems.list.isEmpty)
        try await eventually {
            // While one is there, its writer is not done yet.
            let names = try? FileManager.default.contentsOfDirectory(atPath: directory.path)
            return names?.allSatisfy { !$0.hasSuffix(".new") } ?? false
        }
    }

    /// Each process writes from a queue of its own; here the files are written from many threads at once.
    @Test func draftsOfTwoProcessesDoNotMeet() throws {
        let file = SealedFile(url: directory.appendingPathComponent("shared"))
        let failures = Mutex(0)
        DispatchQueue.concurrentPerform(iterations: 60) { number in
            do {
                try file.write(Data(repeating: UInt8(number % 251), count: 1000 + number))
                guard let content = try file.read(), Set(content).count == 1 else { throw CancellationError() }
            } catch { failures.withLock { $0 += 1 } }
        }
        #expect(failures.withLock { $0 } == 0)
    }

    /// A member that a later SDK adds must not make every cache, and the installation, useless.
    @Test func aCacheOfAnOlderSDKIsRead() throws {
        let old = #"{"fetched":{"entries":{"a":"1"},"version":3},"active":{"entries":{"a":"1"}},"throttle":{}}"#
        let stored = try JSONDecoder().decode(StoredConfig.self, from: Data(old.utf8))
        #expect(!stored.isStale && stored.lastFetchTime == nil)
        _ = try JSONDecoder().decode(StoredConfig.self, from: Data("{}".utf8))
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let installation = SealedFile(url: directory.appendingPathComponent("test@installation"))
        try installation.write(Data(#"{"id":"cAbCdEfGhIjKlMnOpQrStU","firstOpenTime":0}"#.utf8))
        #expect(app().appInstanceID == "cAbCdEfGhIjKlMnOpQrStU")
    }

    @Test func aLeftoverDraftIsNoHarm() async throws {
        try await app().config.fetchAndActivate()
        let draft = file.path + ".1a2b3c4d.new"
        try Data("half a fi".utf8).write(to: URL(fileURLWithPath: draft))
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSinceNow: -7200)], ofItemAtPath: draft)
        let config = app().config
        #expect(config["a"].stringValue == "1")
        server.publish(["a": "2"])
        try await config.fetch(withExpirationDuration: 0)
        try await config.activate()
        #expect(app().config["a"].stringValue == "2")
        #expect(!FileManager.default.fileExists(atPath: draft), "a draft that is two hours old is abandoned")
    }

    @Test func anUnwritableDirectoryIsReportedAndValuesLast() async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        // A file where the directory should be: also root cannot write below it.
        let blocked = directory.appendingPathComponent("file")
        try Data().write(to: blocked)
        let problems = Problems()
        let config = StalecastApp.test(server, directory: blocked) { $0.onProblem = problems.add }.config
        try await config.fetchAndActivate()
        #expect(config["a"].stringValue == "1")
        try await eventually {
            problems.list.contains { if case .cacheNotWritten = $0 { true } else { false } }
        }
    }

    @Test func otherUsersCannotReadTheCache() async throws {
        try await app().config.fetchAndActivate()
        let file = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        let folder = try FileManager.default.attributesOfItem(atPath: directory.path)[.posixPermissions] as? Int
        #expect(file == 0o600)
        #expect(folder == 0o700)
    }

    @Test func draftsOfOtherWritersAreNeitherCountedNorRemoved() async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let drafts = (1...20).map { "test@firebase@ann.\(String($0, radix: 16)).new" }
        for draft in drafts { try Data().write(to: directory.appendingPathComponent(draft)) }
        let client = RemoteConfigClient(
            app: app(),
            configuration: RemoteConfigConfiguration(
                updateBehaviour: .actual, requestParametersProvider: { RemoteConfigRequestParameters(account: "ann") }))
        _ = await client.remoteConfig()
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(Set(files).isSuperset(of: drafts + ["test@firebase@ann"]))
    }

    @Test func aNamespaceMayBeCalledInstallation() async throws {
        let first = app()
        try await RemoteConfig.remoteConfig(app: first, namespace: "installation").fetchAndActivate()
        let problems = Problems()
        let second = app(problems: problems)
        #expect(RemoteConfig.remoteConfig(app: second, namespace: "installation")["a"].stringValue == "1")
        #expect(second.appInstanceID == first.appInstanceID)
        try await PushMessaging.messaging(app: second).unsubscribe(fromTopic: "none")
        #expect(problems.list.isEmpty)
    }
}
