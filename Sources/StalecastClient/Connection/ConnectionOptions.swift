public import Foundation

/// Settings with which a ``StaleConnection`` reaches its server. All times are in seconds; the constants are ours
/// unless a source is named, chosen for mobile networks. Shorter ones find a dead connection sooner, and cost traffic
/// and battery.
public struct ConnectionOptions: Sendable {
    /// Protocol that is spoken. Default ``Dialect/stalecast``.
    public var dialect: Dialect = .stalecast
    /// Further request headers, for example `Authorization`. Default none.
    public var headers: [String: String] = [:]
    /// Asked for the token that streams, long-polls and fetches from Stalecast show as `Authorization: Bearer`: before
    /// the first of them, once for each 401, and when the server says that the token comes to its end. A reconnect
    /// waits for the answer, for ``openingLimit`` at most. While it throws, the last one is shown. nil, the default,
    /// shows what ``headers`` say.
    public var tokenProvider: (@Sendable () async throws -> String)?
    /// Seconds after which an attempt without an answer, or without its first byte, is given up. Default 15. Two
    /// streams in a row that this ends make way for long-poll.
    public var openingLimit: TimeInterval = 15
    /// Seconds without a byte after which an open stream is given up. Default 75: three of the server's heartbeats
    /// (`edge.heartbeat`, default 25 s); keep it above one. Firebase's stream, whose heartbeats are not promised, has
    /// 330 at least, as in Firebase's SDK for iOS.
    public var heartbeatLimit: TimeInterval = 75
    /// Seconds that the server may hold a long-poll. Default 55: below the minute after which proxies give up.
    public var pollWait: TimeInterval = 55
    /// Shortest reconnect delay in seconds, unless the server names one. A random time of up to the same length is
    /// added; its bound doubles with each failure in a row. Default 1.
    public var reconnectDelay: TimeInterval = 1
    /// Most seconds that are added at random to a reconnect delay; after refusals such as 403 or 404 ten times as many.
    /// Default 60.
    public var longestReconnectDelay: TimeInterval = 60
    /// Seconds of long-poll before a stream is tried; each vain try doubles them, up to 15 minutes. Default 60.
    public var streamRetryInterval: TimeInterval = 60
    /// Whether requests go over Foundation's `URLSession` on Linux too, for most of a core per process, instead of
    /// libcurl. Default false; without effect on Apple's systems, where all does.
    public var prefersURLSession = false
    /// See ``StalecastOptions/authorityFile``, which counts where this is nil. Default nil.
    public var authorityFile: String?

    /// A protocol over HTTP.
    public enum Dialect: Sendable {
        /// Server-sent events, with long-poll when those do not get through.
        case stalecast
        /// Firebase's `:streamFetchInvalidations`, for Google or for Stalecast.
        case firebase(FirebaseStreamRequest)
    }

    /// The defaults.
    public init() {}
}

/// Client for which Firebase's invalidation stream is opened.
public struct FirebaseStreamRequest: Sendable {
    /// The project's id or number.
    public var project: String
    /// `firebase` for client templates.
    public var namespace: String
    /// Sent as `key` and as `X-Goog-Api-Key`; empty sends no header.
    public var apiKey: String
    /// The app's id, Firebase's shape `1:<project number>:<platform>:<hex>`.
    public var appID: String
    /// Asked before each connection: the installation's id and a token that is good for a while. Throws while the
    /// installation service cannot be reached, which counts as a failed attempt to connect.
    public var credentials: @Sendable () async throws -> (appInstanceID: String, token: String)

    /// A stream's owner; see the properties.
    public init(
        project: String, namespace: String, apiKey: String, appID: String,
        credentials: @escaping @Sendable () async throws -> (appInstanceID: String, token: String)
    ) {
        (self.project, self.namespace, self.apiKey) = (project, namespace, apiKey)
        (self.appID, self.credentials) = (appID, credentials)
    }
}
