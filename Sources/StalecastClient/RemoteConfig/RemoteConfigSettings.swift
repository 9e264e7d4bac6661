public import Foundation

/// Limits of how often and how long a ``RemoteConfig`` may ask its server. A class, as in Firebase's SDK; assign it to
/// ``RemoteConfig/configSettings`` to make it count.
public final class RemoteConfigSettings: Sendable {
    private struct Values: Sendable {
        var minimumFetchInterval = RemoteConfigSettings.defaultMinimumFetchInterval
        var fetchTimeout = RemoteConfigSettings.defaultFetchTimeout
    }

    /// 12 hours, in seconds: Firebase's default.
    public static let defaultMinimumFetchInterval: TimeInterval = 43200
    /// One minute, in seconds: Firebase's default.
    public static let defaultFetchTimeout: TimeInterval = 60

    private let values = Locked(Values())

    /// The default settings.
    public init() {}

    /// Seconds for which what was fetched counts as fresh: ``RemoteConfig/fetch()`` then does not ask the server.
    /// Default 12 hours. An interval given to `fetch(withExpirationDuration:)` takes precedence, and after a STALE
    /// message the next fetch asks whatever the interval. 0 always asks; negative values count as 0.
    public var minimumFetchInterval: TimeInterval {
        get { values.withLock { $0.minimumFetchInterval } }
        set { values.withLock { $0.minimumFetchInterval = max(0, newValue) } }
    }

    /// Seconds one fetch may take, its answer read to the end, before it fails. Default 60; values below 1 count as 1. An
    /// ``HTTPTransport`` of the app's own has to keep to it itself.
    public var fetchTimeout: TimeInterval {
        get { values.withLock { $0.fetchTimeout } }
        set { values.withLock { $0.fetchTimeout = max(1, newValue) } }
    }
}
