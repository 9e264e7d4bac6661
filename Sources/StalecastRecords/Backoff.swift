/// Waits before the store is asked again on one's own account: by chance up to a bound, so that nodes do not come
/// together, which doubles while nothing answers, to five times what it was.
package struct Backoff: Sendable {
    private let shortest: Duration
    private var bound: Duration

    /// - Parameter shortest: default 200 ms, and so 1 s at last.
    package init(from shortest: Duration = .milliseconds(200)) {
        self.shortest = shortest
        bound = shortest
    }

    package mutating func next(_ chance: inout some RandomNumberGenerator) -> Duration {
        defer { bound = min(bound * 2, shortest * 5) }
        return bound * Double.random(in: 0...1, using: &chance)
    }

    /// It has answered.
    package mutating func end() { bound = shortest }
}
