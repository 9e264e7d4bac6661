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
    /// Since when the server answers with nothing but older versions than `fetched`; nil while it does not.
    var olderSince: Date?
    /// The endpoint and project this was kept for last; nil before the first write.
    var origin: String?
    /// The account the values are for, in a ``RemoteConfigClient``; nil for none.
    var account: String?
    /// Where the connection stood when everything it had said was written here; nil for none.
    var cursor: String?
    /// App version, system, locale … at the last successful fetch; another one overrides interval and throttling.
    package var deviceContext: String?
    var customSignals: [String: String] = [:]

    package init() {}

    /// Prepares what was read for a server: versions of another one mean nothing there, and a lower one may be newer.
    mutating func belong(to origin: String) {
        if fetched != nil, self.origin != nil, self.origin != origin { disown() }
        self.origin = origin
    }

    /// The versions held are not those of the server's store: whatever it answers next is to be taken.
    mutating func disown() {
        (isVoid, isStale, staleVersion, cursor) = (true, true, nil, nil)
    }
}
