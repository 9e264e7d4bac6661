package import StalecastHub

/// The streams of a topic that are told of a change one after the other, evenly over a time: Firebase's SDKs fetch
/// within three seconds whatever a message asks for. Pure: the loop that has the streams says the time and does the
/// telling.
package struct PacedFanOut<ID: Hashable & Sendable>: Sendable {
    package let announcement: TopicBoard.Announcement
    private let order: [ID]
    private var next = 0
    /// Start in milliseconds of any clock, as all times here.
    private let startedAt: UInt64
    private let length: UInt64

    /// - Parameters:
    ///   - first: those whom the fan-out before this one had not come to; they have waited longest.
    ///   - others: the rest; where they begin moves on with each `turn`, so that no stream is always the last.
    package init(
        _ announcement: TopicBoard.Announcement, first: [ID] = [], others: [ID], turn: Int, at now: UInt64
    ) {
        self.announcement = announcement
        startedAt = now
        length = UInt64(clamping: announcement.pacedOverMs)
        // By the golden section of a circle, which comes close to no place twice.
        let start = others.isEmpty ? 0 : Int(Double(turn & 0xFFFF) * 0.618_033_988_75 * 1e6) % others.count
        order = first + others[start...] + others[..<start]
    }

    /// Streams that it has not come to, also where they left meanwhile.
    package var rest: ArraySlice<ID> { order[next...] }
    package var isOver: Bool { next == order.count }

    /// Streams whose turn came since the last call.
    package mutating func due(at now: UInt64) -> ArraySlice<ID> {
        let elapsed = min(now - min(startedAt, now), length)
        let end = length == 0 ? order.count : Int(Double(order.count) * (Double(elapsed) / Double(length)))
        defer { next = max(next, end) }
        return order[next..<max(next, end)]
    }
}
