/// Report of a ``StaleConnection``; reports come in order, one at a time.
public enum ConnectionEvent: Sendable, Hashable {
    /// A message for one topic, or (`CONFIG_STATE` absent from `data`) any other data message sent to it.
    case stale(StaleNotice)
    /// Everything owed was delivered; `cursor` is the place to resume from, to be stored by the owner.
    case synced(cursor: String?)
    /// The server could not understand the cursor: all that is held may be out of date.
    case reset(reason: String)
    /// The server has no such topics; the others are heard. Told with each connection.
    case unknownTopics([String])
    /// The connection's state changed.
    case state(ConnectionState)
    /// The server switched real-time updates off for this client (Firebase's `featureDisabled`).
    case unavailable
    /// A message that could not be understood was skipped.
    case invalidMessage(String)
}

/// State of a ``StaleConnection``.
public enum ConnectionState: Sendable, Hashable {
    /// Not started, stopped, or in the background.
    case idle
    case connecting
    /// Connected, over `transport`: `sse`, `poll` or `firebase`.
    case open(transport: String)
    /// Waiting before the next attempt, `after` of them having failed in a row; never final.
    case waiting(failures: Int, reason: String)
    /// The server said "stop for ever" (204).
    case ended
}
