package import StalecastAccess
import StalecastHTTP
package import StalecastWire

/// Number of API keys that are kept. Revoked and expired ones take the place of no other.
package struct KeyQuota: Sendable {
    /// Keys that are neither revoked nor expired, and as many that are.
    package let most: Int
    /// The nodes of a cluster know a revoked key by its record alone: none is removed there.
    package let isShared: Bool

    /// Revoked and expired keys of a cluster for each one that may be live.
    private static let endedInCluster = 9

    package init(most: Int, isShared: Bool) {
        self.most = most
        self.isShared = isShared
    }

    /// Revoked keys to be forgotten for a new one, those first that were revoked first.
    ///
    /// - Returns: nil when there is no room for a new one.
    package func outgoing(of keys: [AccessKey], at now: Timestamp) -> [String]? {
        let ended = keys.filter { !$0.isLive(at: now) }
        let revoked = isShared ? [] : ended.filter { $0.revokedAt != nil }
        let excess = max(0, ended.count - most * (isShared ? Self.endedInCluster : 1))
        guard keys.count - ended.count < most, excess <= revoked.count else { return nil }
        if excess == 0 { return [] }
        let oldest = revoked.sorted { ($0.revokedAt ?? now, $0.id) < ($1.revokedAt ?? now, $1.id) }
        return oldest.prefix(excess).map(\.id)
    }

    var refusal: GoogleError {
        GoogleError(
            429, "RESOURCE_EXHAUSTED",
            "There are \(most) keys already, or too many that have expired; revoke those that are not needed, or use "
                + "tokens of an issuer.")
    }
}
