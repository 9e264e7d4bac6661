import Foundation

/// Values never go back without a rollback, and a rollback has a new, higher version. An answer of a lower version than
/// the one held is that of a server that lags, or of a store that was restored from a backup. See
/// `StalecastClient.docc/WhenAnAnswerIsOlder.md`.
extension KeeperState {
    /// For so many seconds older answers are kept out. Ours: a replica that lags catches up within seconds, and a
    /// restored store whose clients do not listen is worth five minutes.
    static let olderAnswersLimit: TimeInterval = 300

    /// Whether an answer of `version` is not to be taken, although the server gave it.
    ///
    /// An answer to a message never takes the client back: the message is proof of a newer version. One to the app
    /// does once nothing but older answers came for ``olderAnswersLimit``. A disowned cursor ends the waiting at once:
    /// then the server itself says that its store is another one. nil, a server without versions, is always taken.
    mutating func keepsOut(_ version: Int64?, _ demand: FetchPolicy.Demand, _ now: Date) -> Bool {
        guard let version, version < fetchedVersion, !stored.isVoid else {
            stored.olderSince = nil
            return false
        }
        // A start in the future is that of a clock that was set back.
        let since = min(stored.olderSince ?? now, now)
        stored.olderSince = since
        if case .announced = demand { return true }
        guard now.timeIntervalSince(since) >= Self.olderAnswersLimit else { return true }
        stored.olderSince = nil
        return false
    }
}
