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
    var lastFetchStatus = 0
    package var throttle = FetchThrottle()
    /// A message said that `fetched` is out of date and no fetch has answered it yet.
    package var isStale = false
    /// The newest version such a message named; nil when none did.
    var staleVersion: Int64?
    /// Time since which the server answers with versions older than `staleVersion`; nil while it did not.
    var unreachedSince: Date?
    /// The server disowned the cursor: versions may have started over, so that a lower one can be the newer. Ends with
    /// the next successful fetch.
    var isVoid = false
    /// Time since which the server answers with nothing but older versions than `fetched`; nil while it does not.
    var olderSince: Date?
    /// The endpoint and project this was kept for last; nil before the first write.
    var origin: String?
    /// The account the values are for, in a ``RemoteConfigClient``; nil for none.
    var account: String?
    /// Cursor of the connection when all its messages were written here; nil for none.
    var cursor: String?
    /// The topics of that connection; the cursor is not valid for others.
    var cursorTopics: [String] = []
    /// App version, system, locale … at the last successful fetch; another one overrides interval and throttling.
    package var deviceContext: String?
    var customSignals: [String: String] = [:]

    package init() {}

    /// Reads a stored config. A member that an older SDK did not write gets its default: it must not make a cache
    /// useless.
    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        fetched = try values.decodeIfPresent(ConfigContent.self, forKey: .fetched)
        active = try values.decodeIfPresent(ConfigContent.self, forKey: .active)
        lastFetchTime = try values.decodeIfPresent(Date.self, forKey: .lastFetchTime)
        lastFetchStatus = try values.decode(.lastFetchStatus, or: 0)
        throttle = try values.decode(.throttle, or: FetchThrottle())
        isStale = try values.decode(.isStale, or: false)
        staleVersion = try values.decodeIfPresent(Int64.self, forKey: .staleVersion)
        unreachedSince = try values.decodeIfPresent(Date.self, forKey: .unreachedSince)
        isVoid = try values.decode(.isVoid, or: false)
        olderSince = try values.decodeIfPresent(Date.self, forKey: .olderSince)
        origin = try values.decodeIfPresent(String.self, forKey: .origin)
        account = try values.decodeIfPresent(String.self, forKey: .account)
        cursor = try values.decodeIfPresent(String.self, forKey: .cursor)
        cursorTopics = try values.decode(.cursorTopics, or: [])
        deviceContext = try values.decodeIfPresent(String.self, forKey: .deviceContext)
        customSignals = try values.decode(.customSignals, or: [:])
    }

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

extension KeyedDecodingContainer {
    /// The value of a member, or what it is where the member is missing.
    func decode<Value: Decodable>(_ key: Key, or missing: Value) throws -> Value {
        try decodeIfPresent(Value.self, forKey: key) ?? missing
    }
}
