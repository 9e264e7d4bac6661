package import Foundation

/// Everything that one app knows about one namespace and that outlives the process. It is written as a whole, so that
/// its parts never contradict each other: a cursor is never ahead of the flag that a fetch is owed.
package struct StoredConfig: Sendable, Equatable, Codable {
    /// The last fetched content; becomes `active` on activation.
    var fetched: ConfigContent?
    /// What values are read from; nil until the first activation.
    var active: ConfigContent?
    /// The end of the last successful fetch.
    package var lastFetchTime: Date?
    /// How the last fetch ended; a raw value of ``RemoteConfigFetchStatus``.
    var lastFetchStatus = 0
    package var throttle = FetchThrottle()
    /// A message said that `fetched` is out of date and no fetch has answered it yet.
    package var isStale = false
    /// The newest version such a message named; nil when none did.
    var staleVersion: Int64?
    /// The server disowned the cursor: versions may have started over, so that a lower one can be the newer. Ends with
    /// the next successful fetch.
    var isVoid = false
    /// Where the connection stood when everything it had said was written here; nil for none.
    var cursor: String?
    /// App version, system, locale … at the last successful fetch; another one overrides interval and throttling.
    package var deviceContext: String?
    var customSignals: [String: String] = [:]

    package init() {}
}
