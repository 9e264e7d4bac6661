import Foundation
import StalecastClient
import StalecastTestSupport
import Testing

/// The API that code for Firebase and RuStore is written against, every form of every call, in our words. It is compiled
/// and not run: what it does, the other suites say.
private enum CallsThatCompile {
    // MARK: Remote Config

    static func objects() async throws {
        let config: RemoteConfig = .remoteConfig()
        if let app = Stalecast.app() { _ = RemoteConfig.remoteConfig(app: app) }
        let _: Date? = config.lastFetchTime
        let _: RemoteConfigFetchStatus = config.lastFetchStatus
        let settings: RemoteConfigSettings = config.configSettings
        settings.minimumFetchInterval = 0
        settings.fetchTimeout = 10
        config.configSettings = settings
        config.ensureInitialized { (_: (any Error)?) in }
        try await config.ensureInitialized()
        let _: String = NamespaceGoogleMobilePlatform
        let _: String = RemoteConfigThrottledEndTimeInSecondsKey
        let _: [String] = [
            RemoteConfigErrorDomain, RemoteConfigUpdateErrorDomain, RemoteConfigCustomSignalsErrorDomain,
        ]
    }

    static func handlers(_ config: RemoteConfig) {
        config.fetch { (_: RemoteConfigFetchStatus, _: (any Error)?) in }
        config.fetch(completionHandler: nil)
        config.fetch(completionHandler: { _, _ in })
        config.fetch(withExpirationDuration: 3600) { (_: RemoteConfigFetchStatus, _: (any Error)?) in }
        config.fetch(withExpirationDuration: 3600, completionHandler: nil)
        config.activate { (_: Bool, _: (any Error)?) in }
        config.activate(completion: { _, _ in })
        config.activate(completion: nil)
        config.activate(completionHandler: { _, _ in })
        config.fetchAndActivate { (_: RemoteConfigFetchAndActivateStatus, _: (any Error)?) in }
        config.fetchAndActivate(completionHandler: nil)
        config.setCustomSignals(["plan": "pro", "level": 12, "ratio": 0.5, "gone": nil]) { (_: (any Error)?) in }
        let registration: ConfigUpdateListenerRegistration = config.addOnConfigUpdateListener { update, error in
            if let error { _ = error.localizedDescription }
            let _: Set<String>? = update?.updatedKeys
        }
        config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: { _, _ in })
        registration.remove()
    }

    static func asynchronous(_ config: RemoteConfig) async throws {
        let _: RemoteConfigFetchStatus = try await config.fetch()
        let _: RemoteConfigFetchStatus = try await config.fetch(withExpirationDuration: 3600)
        let _: Bool = try await config.activate()
        let _: RemoteConfigFetchAndActivateStatus = try await config.fetchAndActivate()
        try await config.setCustomSignals(["a": .string("b"), "c": .integer(1), "d": .double(0.5)])
        let updates: RemoteConfig.RemoteConfigUpdateSequence = config.configUpdates
        for try await update in updates { let _: Set<String> = update.updatedKeys }
    }

    private struct Recipe: Codable {
        var name: String
    }

    static func values(_ config: RemoteConfig, key: String?) throws {
        let _: RemoteConfigValue = config["a"]
        let _: RemoteConfigValue = config.configValue(forKey: "a")
        let _: RemoteConfigValue = config.configValue(forKey: nil)
        let _: RemoteConfigValue = config.configValue(forKey: key, source: .remote)
        let _: RemoteConfigValue = config.configValue(forKey: nil, source: .default)
        let _: RemoteConfigValue? = config.defaultValue(forKey: nil)
        let _: [String] = config.allKeys(from: .static)
        let _: Set<String> = config.keys(withPrefix: nil)
        let value = config["a"]
        let _: (String, NSNumber, Data, Bool, Any?, RemoteConfigSource) = (
            value.stringValue, value.numberValue, value.dataValue, value.boolValue, value.jsonValue, value.source
        )
        let _: Recipe = try value.decoded(asType: Recipe.self)
        let _: Recipe = try config.decoded()
        let _: Recipe? = config[decodedValue: "a"]
        let _: [String: AnyHashable]? = config[jsonValue: "a"]
        config.setDefaults(["a": "b" as NSObject])
        config.setDefaults(nil)
        config.setDefaults(fromPlist: "Defaults")
        try config.setDefaults(from: Recipe(name: "x"))
    }

    private struct Screen {
        @RemoteConfigProperty(key: "a", fallback: "b") var text: String
        @RemoteConfigProperty(key: "c", fallback: Recipe?.none) var recipe
    }

    // MARK: Errors

    static func patterns(_ config: RemoteConfig) async {
        do { try await config.fetch() } catch RemoteConfigError.throttled {} catch RemoteConfigError.internalError {
        } catch RemoteConfigError.unknown {} catch let error as RemoteConfigError where error.code == .throttled {
        } catch { let _: Int = (error as NSError).code }
        do { for try await _ in config.configUpdates {} } catch RemoteConfigUpdateError.streamError {
        } catch RemoteConfigUpdateError.notFetched {} catch RemoteConfigUpdateError.messageInvalid {
        } catch RemoteConfigUpdateError.unavailable {} catch {}
        do { try await config.setCustomSignals([:]) } catch RemoteConfigCustomSignalsError.limitExceeded {
        } catch RemoteConfigCustomSignalsError.invalidValueType {} catch RemoteConfigCustomSignalsError.unknown {} catch
        {}
        do { try config.setDefaults(from: 1) } catch RemoteConfigCodableError.invalidSetDefaultsInput(let text) {
            _ = text
        } catch RemoteConfigValueCodableError.unsupportedType(let text) { _ = text } catch {}
    }

    static func states(
        _ fetch: RemoteConfigFetchStatus, _ both: RemoteConfigFetchAndActivateStatus, _ source: RemoteConfigSource
    ) {
        switch fetch {
        case .noFetchYet, .success, .failure, .throttled: break
        }
        switch both {
        case .successFetchedFromRemote, .successUsingPreFetchedData, .error: break
        }
        switch source {
        case .remote, .default, .static: break
        }
    }

    // MARK: Messages

    private final class Former: MessagingDelegate {
        func messaging(_ messaging: Messaging, didReceiveRegistrationToken fcmToken: String) {
            messaging.subscribe(toTopic: "PUSH_RC") { (_: (any Error)?) in }
        }
    }

    private final class Recent: MessagingDelegate {
        func messaging(_ messaging: Messaging, didReceiveRegistrationToken fcmToken: String?) {
            messaging.subscribe(toTopic: "PUSH_RC", completion: nil)
        }
    }

    static func messages(_ delegate: any MessagingDelegate) async throws {
        Messaging.messaging().delegate = delegate
        let _: String? = Messaging.messaging().fcmToken
        let _: String = try await Messaging.messaging().token()
        Messaging.messaging().token { (_: String?, _: (any Error)?) in }
        try await Messaging.messaging().subscribe(toTopic: "weather")
        try await Messaging.messaging().unsubscribe(fromTopic: "weather")
        Messaging.messaging().unsubscribe(fromTopic: "weather") { _ in }
    }

    // MARK: RuStore

    static func ruStore() async {
        let configuration = RemoteConfigConfiguration(
            environment: .beta, updateBehaviour: .snapshot(),
            requestParametersProvider: { RemoteConfigConfiguration.RequestParameters(account: "somebody") })
        let client = RemoteConfigClient(appID: "id", configuration: configuration)
        _ = RemoteConfigClient(appID: "id", configuration: RemoteConfigConfiguration(updateBehaviour: .default()))
        _ = RemoteConfigClient(
            appID: "id", configuration: RemoteConfigConfiguration(updateBehaviour: .default(timeInterval: 60)))
        client.start()
        let config = await client.remoteConfig()
        let _: (Int?, Double?, String?, Bool?) = (
            config.integer(forKey: "a"), config.double(forKey: "a"), config.string(forKey: "a"),
            config.bool(forKey: "a")
        )
    }
}

@Suite struct FirebaseAPITests {
    /// Compares as the pattern of a `catch` does.
    @Test func errorsMatchTheirOwnCodesOnly() {
        let error: any Error = RemoteConfigUpdateError(.notFetched)
        #expect(RemoteConfigUpdateError.notFetched ~= error)
        #expect(!(RemoteConfigUpdateError.streamError ~= error) && !(RemoteConfigError.throttled ~= error))
        #expect((error as NSError).domain == RemoteConfigUpdateErrorDomain && (error as NSError).code == 8002)
    }

    @Test(.timeLimit(.minutes(5))) func aDelegateHearsThatItMaySubscribe() async throws {
        let app = StalecastApp.test(LocalConfigServer(values: ["a": "1"]))
        defer { app.delete() }
        let delegate = Subscriber()
        PushMessaging.messaging(app: app).delegate = delegate
        try await eventually { PushMessaging.messaging(app: app).topics == ["PUSH_RC"] }
    }

    private final class Subscriber: MessagingDelegate {
        func messaging(_ messaging: Messaging, didReceiveRegistrationToken fcmToken: String) {
            messaging.subscribe(toTopic: "PUSH_RC", completion: nil)
        }
    }
}
