/// Pause before the next attempt: a random time up to a bound, so that nodes do not return together. The bound doubles
/// after each attempt without an answer, up to five times the first one.
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

    /// Begins anew after an answer.
    package mutating func end() { bound = shortest }
}
