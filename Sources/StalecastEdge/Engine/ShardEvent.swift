package import StalecastHub

/// What other threads ask of a shard.
package enum ShardEvent: Sendable {
    case hub(HubEvent)
    case settings(EdgeSettings)
    /// A connection whose request the Front has read: the shard owns the descriptor from here on.
    case adopt(Adoption)
    /// Count subscribers by topic.
    case presence(@Sendable (Presence) -> Void)
    /// Say what in the books contradicts itself, for tests.
    case check(@Sendable (_ connections: Int, _ problems: [String]) -> Void)
    /// Stop accepting and end everything within so many milliseconds, evenly spread.
    case drain(milliseconds: Int, done: @Sendable () -> Void)
    case stop
}

/// A connection handed from the Front to a shard.
package struct Adoption: Sendable {
    let fd: Int32
    let address: UInt64
    let request: StreamRequest

    package init(fd: Int32, address: UInt64, request: StreamRequest) {
        self.fd = fd
        self.address = address
        self.request = request
    }
}
