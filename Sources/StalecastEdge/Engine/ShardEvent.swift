import StalecastHub

/// What other threads ask of a shard.
enum ShardEvent: Sendable {
    case hub(HubEvent)
    case settings(EdgeSettings)
    /// A connection whose request the Front has read: the shard owns the descriptor from here on.
    case adopt(Adoption)
    /// Count subscribers by topic.
    case presence(@Sendable (Presence) -> Void)
    /// Stop accepting and end everything within so many milliseconds, evenly spread.
    case drain(milliseconds: Int, done: @Sendable () -> Void)
    case stop
}

/// A connection handed from the Front to a shard.
struct Adoption: Sendable {
    let fd: Int32
    let address: UInt64
    let request: StreamRequest
}
