public import Foundation

/// The namespace of client templates, under the name that Firebase's SDK has for it.
public let NamespaceGoogleMobilePlatform = "firebase"

/// The configuration of one namespace, with the API of Firebase Remote Config.
///
/// Values are those of the content that was activated last, over the app's defaults; reading them never waits.
/// ``fetch()`` brings a newer content, ``activate()`` makes it count, both survive the process. Completion handlers and
/// listeners run on ``StalecastOptions/callbackQueue``.
public final class RemoteConfig: Sendable {
    /// The app this belongs to.
    public let app: StalecastApp
    let keeper: ConfigKeeper

    init(app: StalecastApp, keeper: ConfigKeeper) {
        self.app = app
        self.keeper = keeper
    }

    /// The configuration of the default app and its default namespace; always the same object.
    ///
    /// - Precondition: ``Stalecast/configure(options:)`` was called.
    public static func remoteConfig() -> RemoteConfig { remoteConfig(app: Stalecast.requiredApp()) }

    /// The configuration of an app.
    ///
    /// - Parameter namespace: nil is the app's ``StalecastOptions/namespace``.
    public static func remoteConfig(app: StalecastApp, namespace: String? = nil) -> RemoteConfig {
        app.remoteConfig(namespace: namespace)
    }

    /// The name this type's updates have in Firebase's SDK.
    public typealias RemoteConfigUpdateSequence = StalecastClient.RemoteConfigUpdateSequence

    /// A copy of the settings in force; assign to change them. They last until the process ends.
    public var configSettings: RemoteConfigSettings {
        get {
            let settings = RemoteConfigSettings()
            (settings.minimumFetchInterval, settings.fetchTimeout) = keeper.state.withLock {
                ($0.minimumFetchInterval, $0.fetchTimeout)
            }
            return settings
        }
        set {
            let (interval, timeout) = (newValue.minimumFetchInterval, newValue.fetchTimeout)
            keeper.state.withLock { ($0.minimumFetchInterval, $0.fetchTimeout) = (interval, timeout) }
        }
    }

    /// Time of the server's last answer; nil when it never answered with this cache. An answer older than what is held
    /// does not count (<doc:WhenAnAnswerIsOlder>).
    public var lastFetchTime: Date? { keeper.state.withLock { $0.stored.lastFetchTime } }

    /// End of the last fetch.
    public var lastFetchStatus: RemoteConfigFetchStatus {
        RemoteConfigFetchStatus(rawValue: keeper.state.withLock { $0.stored.lastFetchStatus }) ?? .noFetchYet
    }

    /// Whether a message said that the configuration is out of date and no fetch has answered it yet; survives the
    /// process. The next fetch then asks the server whatever the interval.
    public var isStale: Bool { keeper.state.withLock { $0.stored.isStale } }

    /// The template's version of the content in force; nil before the first activation.
    public var activeVersion: Int64? { keeper.state.withLock { $0.stored.active?.version } }

    /// The template's version of the content fetched last; nil before the first fetch.
    public var fetchedVersion: Int64? { keeper.state.withLock { $0.stored.fetched?.version } }

    /// Returns at once, because the cache is read when the object is made. Exists for code that was written for
    /// Firebase.
    public func ensureInitialized() async throws {}

    /// Calls back at once; there for code written for Firebase.
    public func ensureInitialized(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        app.callbacks.run { completionHandler(nil) }
    }

    /// Cursor of the connection when this was written; for tests.
    package var storedCursor: String? { keeper.state.withLock { $0.stored.cursor } }
}
