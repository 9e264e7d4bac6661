package import Foundation

/// Everything that one app knows about one namespace and that outlives the process. It is written as a whole, so that
/// its parts never contradict each other: a cursor is never ahead of the flag that a fetch is owed.
package struct StoredConfig: Sendable, Equatable, Codable {
    /// The last fetched content; becomes `active` on activation.
    var fetched: ConfigContent?
    /// Content from which values are read; nil until the first activation.
    var active: ConfigContent?
    /// The end of the last successful fetch.
    package var lastFetchTime: Date?
    /// End of the last fetch; a raw value of ``RemoteConfigFetchStatus``.
    @OrEmpty var lastFetchStatus = 0
    @OrEmpty package var throttle = FetchThrottle()
    /// A message said that `fetched` is out of date and no fetch has answered it yet.
    @OrEmpty package var isStale = false
    /// The newest version such a message named; nil when none did.
    var staleVersion: Int64?
    /// Time since which the server answers with versions older than `staleVersion`; nil while it did not.
    var unreachedSince: Date?
    /// The server disowned the cursor: versions may have started over, so that a lower one can be the newer. Ends with
    /// the next successful fetch.
    @OrEmpty var isVoid = false
    /// Time since which the server answers with nothing but older versions than `fetched`; nil while it does not.
    var olderSince: Date?
    /// The endpoint and project this was kept for last; nil before the first write.
    var origin: String?
    /// The account the values are for, in a ``RemoteConfigClient``; nil for none.
    var account: String?
    /// Cursor of the connection when all its messages were written here; nil for none.
    var cursor: String?
    /// The topics of that connection; the cursor is not valid for others.
    @OrEmpty var cursorTopics: [String] = []
    /// App version, system, locale … at the last successful fetch; another one overrides interval and throttling.
    package var deviceContext: String?
    @OrEmpty var customSignals: [String: String] = [:]

    package init() {}

    /// Prepares what was read for a server: versions of another one mean nothing there, and a lower one may be newer.
    mutating func belong(to origin: String) {
        if fetched != nil, self.origin != nil, self.origin != origin { disown() }
        self.origin = origin
    }

    /// The versions held are not those of the server's store: whatever it answers next is to be taken.
    mutating func disown() {
        (isVoid, isStale, staleVersion, unreachedSince, cursor) = (true, true, nil, nil, nil)
    }

    /// A message said that `version` is there.
    mutating func wasAnnounced(_ version: Int64) {
        guard version > staleVersion ?? 0 else { return }
        (staleVersion, unreachedSince) = (version, nil)
    }

    /// Whether the server's answer is what messages announced. A missing version is awaited for `limit` seconds only,
    /// because any sender of messages can name one that does not exist, and an origin may go back.
    mutating func isAnswered(by version: Int64?, _ now: Date, within limit: TimeInterval) -> Bool {
        guard let version, let staleVersion, version < staleVersion else { return true }
        // A start in the future is that of a clock that was set back.
        let since = min(unreachedSince ?? now, now)
        unreachedSince = since
        return now.timeIntervalSince(since) >= limit
    }
}
