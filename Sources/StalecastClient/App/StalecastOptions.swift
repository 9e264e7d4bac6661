public import Foundation

/// Source of an app's configuration, and the identity with which it asks.
///  ```swift Stalecast.configure(options: StalecastOptions(endpoint: URL(string: "https://config.example.com")!,
/// project: "shop")) ```
public struct StalecastOptions: Sendable {
    /// Base URL of Stalecast's public listener. Default `http://127.0.0.1:8080`.
    public var endpoint: URL
    /// The project's id or number. Default `demo`.
    public var project: String
    /// The namespace read when none is named. Default `firebase`, the client template.
    public var namespace: String
    /// Sent as `X-Goog-Api-Key`; nil sends none. Needed where the server lists `edge.apiKeys`, and by Google.
    public var apiKey: String?
    /// The app's id, Firebase's shape `1:<project number>:<ios|android|web>:<hex>`; conditions on the platform and on
    /// `app.id` look at it. Default ``defaultAppID``.
    public var appID: String
    /// The installation's id, which percentages are drawn by; nil (default) makes one at first use and keeps it.
    public var appInstanceID: String?
    /// Version that conditions on `app.version` compare, for example `2.10.0`; nil (default) is the bundle's.
    public var appVersion: String?
    /// Build that conditions on `app.build` compare; nil (default) is the bundle's.
    public var appBuild: String?
    /// Two letters, for example `FR`, for conditions on the country; nil (default) is the system's.
    public var country: String?
    /// BCP 47, for example `fr-FR`, for conditions on the language; nil (default) is the system's.
    public var language: String?
    /// Topics listened to while there is an update listener. Default `["PUSH_RC"]`, which every scope is bound to.
    public var topics = ["PUSH_RC"]
    /// Further headers of every request, for example `["Authorization": "Bearer …"]`. Default none.
    public var headers: [String: String] = [:]
    /// Path of a PEM file with the authorities that may vouch for an https server, instead of the system's: for a
    /// certificate of one's own, such as `stalecast tls dev` makes. nil (default) trusts the system's. Only where
    /// libcurl does the work, on Linux; on Apple's systems authorities are the keychain's.
    public var authorityFile: String?
    /// Directory of the cache; nil (default) is the user's, see ``CacheDirectory``. Apps of one process need different
    /// names there. Processes may share it, as two workers of one service do: each file is always whole, the one
    /// that wrote last counts at the next start, and no process sees another's values before.
    public var cacheDirectory: URL?
    /// Transport of the requests. Default ``NetworkTransport/shared``.
    public var transport: any HTTPTransport = NetworkTransport.shared
    /// Protocol that the server speaks. Default ``Server/stalecast``.
    public var server = Server.stalecast
    /// Time limits and delays of the connection for updates, each with its unit and default there. ``server`` and
    /// ``headers`` above count, and not the dialect within; headers within are sent with the connection's requests
    /// alone.
    public var connection = ConnectionOptions()
    /// Queue on which completion handlers and listeners run; nil (default) is the main queue on Apple's systems and a
    /// serial queue of the SDK's own elsewhere, because a Linux program need not drain its main queue.
    public var callbackQueue: DispatchQueue?
    /// Hears of what the SDK survives but the developer should know: a damaged or unwritable cache, a topic that the
    /// server does not have. Called on ``callbackQueue``, where it may use the SDK. Default nil.
    public var onProblem: (@Sendable (StalecastProblem) -> Void)?

    /// Protocol of a server.
    public enum Server: Sendable, Hashable {
        /// Stalecast: topics over SSE or long-poll; no installation needs to be registered.
        case stalecast
        /// Google's Firebase, or something that imitates it: its hosts, installations, and real-time stream.
        case firebase(FirebaseHosts)
    }

    /// The given settings; see the members for their defaults.
    public init(
        endpoint: URL = Self.defaultEndpoint, project: String = "demo", namespace: String = "firebase",
        apiKey: String? = nil, appID: String = Self.defaultAppID, appInstanceID: String? = nil
    ) {
        (self.endpoint, self.project, self.namespace) = (endpoint, project, namespace)
        (self.apiKey, self.appID, self.appInstanceID) = (apiKey, appID, appInstanceID)
    }

    /// Options for Google's Firebase itself.
    ///
    /// - Parameters:
    ///   - appID: as in `GoogleService-Info.plist`, `GOOGLE_APP_ID`.
    ///   - apiKey: `API_KEY` there.
    ///   - project: `PROJECT_ID` there.
    public static func firebase(appID: String, apiKey: String, project: String) -> StalecastOptions {
        var options = StalecastOptions(
            endpoint: FirebaseHosts.google.config, project: project, apiKey: apiKey, appID: appID)
        options.server = .firebase(.google)
        return options
    }

    /// `http://127.0.0.1:8080`: where `stalecast serve` listens unless told otherwise.
    public static let defaultEndpoint = URL(staticString: "http://127.0.0.1:8080")

    /// An app id with the default project's number: of platform `ios` on Apple's systems, and elsewhere of platform
    /// `linux`, which makes conditions on Firebase's platforms false.
    public static let defaultAppID: String = {
        #if canImport(Darwin)
            "1:123456789012:ios:57a1eca57"
        #else
            "1:123456789012:linux:57a1eca57"
        #endif
    }()
}

/// The three hosts of Firebase that Remote Config needs.
public struct FirebaseHosts: Sendable, Hashable {
    /// `:fetch`.
    public var config: URL
    /// `:streamFetchInvalidations`.
    public var realtime: URL
    /// Registration of installations.
    public var installations: URL

    /// The given settings; see the members for their defaults.
    public init(config: URL, realtime: URL, installations: URL) {
        (self.config, self.realtime, self.installations) = (config, realtime, installations)
    }

    /// Google's.
    public static let google = FirebaseHosts(
        config: URL(staticString: "https://firebaseremoteconfig.googleapis.com"),
        realtime: URL(staticString: "https://firebaseremoteconfigrealtime.googleapis.com"),
        installations: URL(staticString: "https://firebaseinstallations.googleapis.com"))
}

/// Problem that the SDK survived on its own; `description` is a sentence for the developer.
public enum StalecastProblem: Error, Sendable, Hashable, CustomStringConvertible {
    /// A cache file could not be understood and is not used; the app runs on its defaults until the next fetch.
    case cacheDamaged(file: String, reason: String)
    /// A cache file could not be written: values last until the process ends.
    case cacheNotWritten(file: String, reason: String)
    /// The server answered an older version than the one held. That one is kept, for five minutes of nothing but older
    /// answers; see <doc:WhenAnAnswerIsOlder>.
    case olderAnswer(version: Int64, held: Int64)
    /// The server has no such topic: nothing will come over it until the server's configuration names it. The app's
    /// other topics are heard.
    case unknownTopic(String)

    /// A sentence for the developer.
    public var description: String {
        switch self {
        case .cacheDamaged(let file, let reason):
            "the cache file \(file) is damaged (\(reason)); it is ignored and replaced after the next fetch"
        case .cacheNotWritten(let file, let reason):
            "the cache file \(file) could not be written (\(reason)); check the directory's permissions and free space"
        case .unknownTopic(let topic):
            "the server has no topic \(topic); add it to the server's topics, or unsubscribe from it"
        case .olderAnswer(let version, let held):
            "the server answered version \(version), older than version \(held), which is kept; it lags, or its store was "
                + "restored, and then its answers are taken after \(Int(KeeperState.olderAnswersLimit / 60)) minutes"
        }
    }
}

extension URL {
    /// A URL written in the source, which is known to be one.
    init(staticString text: StaticString) {
        guard let url = URL(string: "\(text)") else { preconditionFailure("\(text) is not a URL") }
        self = url
    }
}
