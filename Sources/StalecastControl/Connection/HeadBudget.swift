/// Counts a connection's bytes while a request head is awaited. Fed in slices of at most ``limit`` bytes, so that a
/// head that begins in the middle of a slice is noticed after at most twice the limit.
package struct HeadBudget: Sendable {
    private enum Phase {
        /// Bytes of the head so far.
        case head(Int)
        /// The head is complete, its body is not.
        case body
    }

    /// Bytes a request line and its headers may have together.
    package let limit: Int
    private var phase = Phase.head(0)

    package init(limit: Int) { self.limit = limit }

    /// True between two requests: nothing of a head has arrived.
    package var isIdle: Bool { if case .head(0) = phase { true } else { false } }

    /// True while part of a head has arrived and the rest has not.
    package var isInHead: Bool { if case .head(1...) = phase { true } else { false } }

    /// How many of `available` bytes may be passed on now; nil when the head is too large. Counts them as passed.
    package mutating func take(_ available: Int) -> Int? {
        guard case .head(let passed) = phase else { return min(available, limit) }
        let count = min(available, limit - passed)
        guard count > 0 else { return nil }
        phase = .head(passed + count)
        return count
    }

    /// The parser has a whole head.
    package mutating func headComplete() { phase = .body }

    /// The parser has a whole request.
    package mutating func requestComplete() { phase = .head(0) }
}
