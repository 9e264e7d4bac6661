import Foundation
import StalecastClient
import StalecastTestSupport
import Synchronization
import Testing

/// Tests API that code for Firebase calls, and that has little to do or another name here.
@Suite struct FormerAPITests {
    private let server = LocalConfigServer(values: ["a": "1", "b": "1"])
    private let queue = DispatchQueue(label: "callbacks")

    @Test func itIsInitializedFromTheStart() async throws {
        let directory = scratchDirectory()
        try await StalecastApp.test(server, directory: directory).config.fetchAndActivate()
        server.outage = .unreachable
        let config = StalecastApp.test(server, directory: directory).config
        #expect(config["a"].stringValue == "1", "the cache is read before a caller waits for it")
        try await config.ensureInitialized()
        #expect(
            await withCheckedContinuation { done in
                config.ensureInitialized { error in done.resume(returning: error == nil) }
            })
        #expect(server.fetchCount == 1, "no request is sent")
    }

    @Test func activateFetchedActivatesOnce() async throws {
        let config: any FormerActivation & AnyObject = StalecastApp.test(server).config
        let remoteConfig = try #require(config as? RemoteConfig)
        #expect(!config.activateFetched(), "nothing was fetched")
        try await remoteConfig.fetch()
        #expect(remoteConfig["a"].source == .static)
        #expect(config.activateFetched())
        #expect(remoteConfig["a"].stringValue == "1")
        #expect(!config.activateFetched())
    }

    @Test func developerModeAsksWithEveryFetch() async throws {
        let config = StalecastApp.test(server).config
        let settings = Former.settings(isDeveloping: true)
        #expect(settings.minimumFetchInterval == 0 && Former.isDeveloping(settings))
        config.configSettings = settings
        for count in 1...3 {
            try await config.fetch()
            #expect(server.fetchCount == count)
        }
        let usual = Former.settings(isDeveloping: false)
        #expect(usual.minimumFetchInterval == RemoteConfigSettings.defaultMinimumFetchInterval)
        #expect(!Former.isDeveloping(usual))
        config.configSettings = usual
        try await config.fetch()
        #expect(server.fetchCount == 3)
    }

    @Test func aPropertysChangesAreThoseOfItsParameter() async throws {
        let app = StalecastApp.test(server) { $0.callbackQueue = queue }
        defer { app.delete() }
        @RemoteConfigProperty(key: "a", fallback: "none", config: app.config) var a: String
        let stream = $a.changes
        let seen = Seen()
        let observing = Task {
            for await value in stream { seen.add(value) }
        }
        defer { observing.cancel() }
        try await eventually("the value in force, at once") { seen.list == ["none"] }
        try await activate(app)
        try await eventually { seen.list == ["none", "1"] }
        server.publish(["a": "1", "b": "2"])
        try await activate(app)
        #expect(app.config["b"].stringValue == "2")
        server.publish(["a": "2", "b": "2"])
        try await activate(app)
        try await eventually("an activation that did not change it is passed over") { seen.list == ["none", "1", "2"] }
        #expect(a == "2" && $a.value == "2")
        server.publish(["b": "2"])
        try await activate(app)
        try await eventually("a parameter that is gone") { seen.list == ["none", "1", "2", "none"] }
    }

    @Test func aSlowObserverGetsTheNewest() async throws {
        let app = StalecastApp.test(server) { $0.callbackQueue = queue }
        defer { app.delete() }
        @RemoteConfigProperty(key: "a", fallback: "none", config: app.config) var a: String
        let stream = $a.changes
        for number in 2...9 {
            server.publish(["a": "\(number)"])
            try await activate(app)
        }
        var changes = stream.makeAsyncIterator()
        #expect(await changes.next() == "9")
    }

    private final class Seen: Sendable {
        private let all = Mutex<[String]>([])
        var list: [String] { all.withLock { $0 } }
        func add(_ value: String) { all.withLock { $0.append(value) } }
    }

    private func activate(_ app: StalecastApp) async throws {
        try await app.config.fetch(withExpirationDuration: 0)
        #expect(try await app.config.activate())
        // Callbacks run one after the other: once a later one ran, those of the activation did.
        await withCheckedContinuation { done in queue.async { done.resume() } }
    }
}

/// Deprecated members, reached through protocols, which the compiler does not warn of.
private protocol FormerActivation {
    func activateFetched() -> Bool
}

extension RemoteConfig: FormerActivation {}

private protocol FormerSettings {
    init(developerModeEnabled: Bool)
    var isDeveloperModeEnabled: Bool { get }
}

extension RemoteConfigSettings: FormerSettings {}

private enum Former {
    static func settings(isDeveloping: Bool) -> RemoteConfigSettings {
        make(RemoteConfigSettings.self, isDeveloping)
    }

    static func isDeveloping(_ settings: some FormerSettings) -> Bool { settings.isDeveloperModeEnabled }

    private static func make<Settings: FormerSettings>(_ type: Settings.Type, _ isDeveloping: Bool) -> Settings {
        Settings(developerModeEnabled: isDeveloping)
    }
}
