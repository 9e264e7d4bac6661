public import Foundation

/// Environment of an app for whose configuration a ``RemoteConfigClient`` asks; sent as the custom signal
/// `environment`.
public enum RemoteConfigEnvironment: String, Sendable, Hashable, CaseIterable {
    case alpha, beta, release
}

/// Rule for when a ``RemoteConfigClient`` asks its server, and which readers see the answer.
public enum RemoteConfigUpdateBehaviour: Sendable, Hashable {
    /// Refreshes in the background, every `timeInterval` seconds (default 15 minutes). Values are read from the cache,
    /// and all objects obtained before see what a refresh brought. A request waits for the server while the cache is
    /// empty or older than the interval.
    case `default`(timeInterval: TimeInterval = RemoteConfigConfiguration.defaultTimeInterval)
    /// Refreshes and waits as ``default(timeInterval:)``, but the values stay those of the client's first request: what a
    /// refresh brought is seen by a new client, in this process or the next.
    case snapshot(timeInterval: TimeInterval = RemoteConfigConfiguration.defaultTimeInterval)
    /// Each request asks the server, and answers from the cache when that fails. A server that named a pause
    /// (`Retry-After`) is not asked until that is over, which listeners are told.
    case actual

    /// Seconds between background refreshes; nil for none.
    var timeInterval: TimeInterval? {
        switch self {
        case .default(let interval), .snapshot(let interval): max(1, interval)
        case .actual: nil
        }
    }
}

/// Parameters of a request that conditions can read.
public struct RemoteConfigRequestParameters: Sendable, Hashable {
    /// The user's account; sent as the custom signal `account`. nil sends none.
    public var account: String?
    /// Further custom signals, within ``CustomSignalLimits``. Default none.
    public var signals: [String: String]

    /// The given settings; see the members for their defaults.
    public init(account: String? = nil, signals: [String: String] = [:]) {
        self.account = account
        self.signals = signals
    }
}

/// Gives the parameters of a request at the time it is made.
public protocol RemoteConfigRequestParametersProvider: Sendable {
    /// The user's account; nil for none.
    var account: String? { get }
    /// All parameters. Default: the account alone.
    var parameters: RemoteConfigRequestParameters { get }
}

extension RemoteConfigRequestParametersProvider {
    /// Parameters of the next request.
    public var parameters: RemoteConfigRequestParameters { RemoteConfigRequestParameters(account: account) }
}

extension RemoteConfigRequestParameters: RemoteConfigRequestParametersProvider {
    /// Parameters of the next request.
    public var parameters: RemoteConfigRequestParameters { self }
}

/// Settings of a ``RemoteConfigClient``.
public struct RemoteConfigConfiguration: Sendable {
    /// Default ``RemoteConfigEnvironment/release``.
    public var environment: RemoteConfigEnvironment
    /// Default: refreshed in the background every 15 minutes.
    public var updateBehaviour: RemoteConfigUpdateBehaviour
    /// Asked before each request; nil (default) sends nothing.
    public var requestParametersProvider: (any RemoteConfigRequestParametersProvider)?

    /// RuStore's name of what is sent along with a request.
    public typealias RequestParameters = RemoteConfigRequestParameters

    /// 15 minutes, in seconds.
    public static let defaultTimeInterval: TimeInterval = 900

    /// The given settings; see the members for their defaults.
    public init(
        environment: RemoteConfigEnvironment = .release,
        updateBehaviour: RemoteConfigUpdateBehaviour = .default(timeInterval: Self.defaultTimeInterval),
        requestParametersProvider: (any RemoteConfigRequestParametersProvider)? = nil
    ) {
        (self.environment, self.updateBehaviour) = (environment, updateBehaviour)
        self.requestParametersProvider = requestParametersProvider
    }

    /// A configuration whose parameters a closure gives.
    public init(
        environment: RemoteConfigEnvironment = .release,
        updateBehaviour: RemoteConfigUpdateBehaviour = .default(timeInterval: Self.defaultTimeInterval),
        requestParametersProvider: @escaping @Sendable () -> RemoteConfigRequestParameters
    ) {
        self.init(
            environment: environment, updateBehaviour: updateBehaviour,
            requestParametersProvider: ParametersClosure(give: requestParametersProvider))
    }

    /// Account and all signals of a request made now.
    var request: RemoteConfigRequestParameters {
        var request = requestParametersProvider?.parameters ?? RemoteConfigRequestParameters()
        request.signals["environment"] = environment.rawValue
        request.signals["account"] = request.account
        return request
    }

    private struct ParametersClosure: RemoteConfigRequestParametersProvider {
        let give: @Sendable () -> RemoteConfigRequestParameters
        var account: String? { give().account }
        var parameters: RemoteConfigRequestParameters { give() }
    }
}

/// Listener to the work of a ``RemoteConfigClient``. The closures run on ``StalecastOptions/callbackQueue``.
public struct RemoteConfigEventListener: Sendable {
    let didUpdatePersistentStorage: @Sendable () -> Void
    let didCompleteNetworkRequest: @Sendable ((any Error)?) -> Void

    /// - Parameters:
    ///   - didUpdatePersistentStorage: new values are stored.
    ///   - didCompleteNetworkRequest: the server was asked; with a ``RemoteConfigError`` when that failed.
    public init(
        didUpdatePersistentStorage: @escaping @Sendable () -> Void = {},
        didCompleteNetworkRequest: @escaping @Sendable ((any Error)?) -> Void = { _ in }
    ) {
        self.didUpdatePersistentStorage = didUpdatePersistentStorage
        self.didCompleteNetworkRequest = didCompleteNetworkRequest
    }
}
