import Foundation
import StalecastClient
import StalecastTestSupport
import Testing

/// Tests code that the guides of Firebase and RuStore have their readers write, in our words: it compiles with another
/// import, and does what they say.
@Suite struct GuideTests {
    private struct Price: Codable, Equatable {
        var amount: Int
        var currency: String
    }

    // MARK: Firebase

    @Test func valuesAreDefaultedFetchedActivatedAndRead() async throws {
        let app = StalecastApp.test(
            LocalConfigServer(values: ["limit": "5", "price": #"{"amount":3,"currency":"EUR"}"#]))
        defer { app.delete() }
        let remoteConfig = RemoteConfig.remoteConfig(app: app)
        let settings = RemoteConfigSettings()
        settings.minimumFetchInterval = 0
        settings.fetchTimeout = 10
        remoteConfig.configSettings = settings
        remoteConfig.setDefaults(["limit": 1 as NSNumber, "title": "Hello" as NSString])
        #expect(remoteConfig["limit"].numberValue == 1 && remoteConfig["limit"].source == .default)

        let status = try await remoteConfig.fetch()
        #expect(status == .success && remoteConfig.lastFetchStatus == .success)
        #expect(try await remoteConfig.activate())
        #expect(remoteConfig.configValue(forKey: "limit").numberValue.intValue == 5)
        #expect(remoteConfig["limit"].source == .remote && remoteConfig["nothing"].source == .static)
        #expect(try remoteConfig["price"].decoded(asType: Price.self) == Price(amount: 3, currency: "EUR"))
        #expect(remoteConfig["price"].jsonValue != nil && remoteConfig["title"].stringValue == "Hello")
        #expect(remoteConfig[decodedValue: "price"] == Price(amount: 3, currency: "EUR"))
        #expect(remoteConfig[jsonValue: "price"]?["amount"] == AnyHashable(3))
        #expect(Set(remoteConfig.allKeys(from: .remote)) == ["limit", "price"])
        #expect(remoteConfig.keys(withPrefix: "pr") == ["price"])
    }

    @Test func everythingHasACompletionHandler() async throws {
        let server = LocalConfigServer(values: ["a": "1"])
        let app = StalecastApp.test(server)
        defer { app.delete() }
        let remoteConfig = RemoteConfig.remoteConfig(app: app)
        let fetched = await withCheckedContinuation { done in
            remoteConfig.fetch(withExpirationDuration: 0) { status, error in
                done.resume(returning: (status, error == nil))
            }
        }
        #expect(fetched == (.success, true))
        let changed = await withCheckedContinuation { done in
            remoteConfig.activate { changed, _ in done.resume(returning: changed) }
        }
        #expect(changed)
        server.publish(["a": "2"])
        let both = await withCheckedContinuation { done in
            remoteConfig.fetch(withExpirationDuration: 0) { _, _ in
                remoteConfig.fetchAndActivate { status, _ in done.resume(returning: status) }
            }
        }
        #expect(both != .error && remoteConfig["a"].stringValue == "2")
    }

    @Test func listenersHearWhichKeysChanged() async throws {
        let server = LocalConfigServer(values: ["a": "1"])
        let app = StalecastApp.test(server)
        defer { app.delete() }
        let remoteConfig = RemoteConfig.remoteConfig(app: app)
        try await remoteConfig.fetchAndActivate()
        let registration = remoteConfig.addOnConfigUpdateListener { configUpdate, error in
            guard let configUpdate, error == nil, configUpdate.updatedKeys.contains("a") else { return }
            remoteConfig.activate { _, _ in }
        }
        try await eventually { server.listenerCount == 1 }
        server.publish(["a": "2"])
        try await eventually { remoteConfig["a"].stringValue == "2" }
        registration.remove()
        try await eventually { server.listenerCount == 0 }
    }

    @Test func aPropertyReadsItsParameter() async throws {
        let app = StalecastApp.test(
            LocalConfigServer(values: ["title": "Hi", "rows": "7", "price": #"{"amount":1,"currency":"X"}"#]))
        defer { app.delete() }
        let config = RemoteConfig.remoteConfig(app: app)
        @RemoteConfigProperty(key: "title", fallback: "none", config: config) var title: String
        @RemoteConfigProperty(key: "rows", fallback: 1, config: config) var rows: Int
        @RemoteConfigProperty(key: "price", fallback: Price(amount: 0, currency: ""), config: config) var price: Price
        #expect(title == "none" && rows == 1 && price.amount == 0)
        try await config.fetchAndActivate()
        #expect(title == "Hi" && rows == 7 && price.currency == "X")
    }

    // MARK: RuStore

    private struct Account: RemoteConfigRequestParametersProvider {
        let account: String?
    }

    @Test func ruStoresClientStartsAndAnswers() async throws {
        let server = LocalConfigServer(values: ["limit": "5", "rate": "0.5", "on": "true", "object": #"{"a":1}"#])
        var options = StalecastOptions.local(server)
        options.cacheDirectory = scratchDirectory()
        let client = RemoteConfigClient(
            appID: "guide-\(UUID().uuidString)",
            configuration: RemoteConfigConfiguration(
                environment: .beta, updateBehaviour: .actual, requestParametersProvider: Account(account: "somebody")),
            options: options)
        client.addEventListener(
            RemoteConfigEventListener(didUpdatePersistentStorage: {}, didCompleteNetworkRequest: { _ in }))
        client.start()
        let remoteConfig = await client.remoteConfig()
        #expect(remoteConfig.integer(forKey: "limit") == 5 && remoteConfig.double(forKey: "rate") == 0.5)
        #expect(remoteConfig.bool(forKey: "on") == true && remoteConfig.string(forKey: "limit") == "5")
        #expect(remoteConfig.jsonObject(forKey: "object") != nil && !remoteConfig.contains(key: "nothing"))
    }
}
