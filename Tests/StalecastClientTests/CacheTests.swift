import Foundation
import StalecastClient
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
            guard case .cacheDamaged(self.file.path, _)? = problems.list.first else {
                Issue.record("the damage was not reported: \(problems.list)")
                return
            }
        }
        let healed = app().config
        try await healed.fetchAndActivate()
        #expect(app().config["a"].stringValue == "1")
    }

    @Test func aLeftoverDraftIsNoHarm() async throws {
        try await app().config.fetchAndActivate()
        try Data("half a fi".utf8).write(to: URL(fileURLWithPath: file.path + ".new"))
        let config = app().config
        #expect(config["a"].stringValue == "1")
        server.publish(["a": "2"])
        try await config.fetch(withExpirationDuration: 0)
        try await config.activate()
        #expect(app().config["a"].stringValue == "2")
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
        #expect(problems.list.contains { if case .cacheNotWritten = $0 { true } else { false } })
    }

    @Test func otherUsersCannotReadTheCache() async throws {
        try await app().config.fetchAndActivate()
        let file = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
        let folder = try FileManager.default.attributesOfItem(atPath: directory.path)[.posixPermissions] as? Int
        #expect(file == 0o600)
        #expect(folder == 0o700)
    }
}
