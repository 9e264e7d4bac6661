package import StalecastWire
import Synchronization

/// Streams of this node whose peer has not acknowledged the newest message of a scope, though it had ``timeToRead``.
/// Asking the kernel about each stream takes the event loop's time, so the result is kept for ``kept``.
package final class SlowReaders: Sendable {
    /// Time that a client has to read a message before it counts as slow.
    private static let timeToRead = Duration.seconds(5)
    /// Age from which a result is replaced.
    private static let kept = Duration.seconds(10)
    /// Age from which a result no longer counts. It is reached where publishes come faster than ``timeToRead``.
    private static let longestKept = Duration.seconds(60)

    private struct Reading {
        let streams: Int
        /// Monotonic time in nanoseconds.
        let at: UInt64
    }

    private let readings = Mutex<[Scope: Reading]>([:])

    package init() {}

    /// Counts the slow readers of scopes.
    ///
    /// - Parameters:
    ///   - scopes: those that have a version, each with the age of its newest one.
    ///   - now: monotonic time in nanoseconds.
    ///   - unread: streams of a scope that have not acknowledged everything; nil when that is not known.
    /// - Returns: nil where a scope has no result that still counts.
    package func count(
        _ scopes: [(Scope, age: Duration)], at now: UInt64, unread: (Scope) async -> Int?
    ) async -> Int? {
        var sum: Int? = 0
        for (scope, age) in scopes {
            var reading = readings.withLock { $0[scope] }
            let isDue = age >= Self.timeToRead && !Self.isYounger(reading, than: Self.kept, at: now)
            if isDue, let streams = await unread(scope) {
                let new = Reading(streams: streams, at: now)
                readings.withLock { $0[scope] = new }
                reading = new
            }
            let streams = Self.isYounger(reading, than: Self.longestKept, at: now) ? reading?.streams : nil
            sum = sum.flatMap { sum in streams.map { sum + $0 } }
        }
        return sum
    }

    private static func isYounger(_ reading: Reading?, than age: Duration, at now: UInt64) -> Bool {
        guard let reading else { return false }
        // Another request may have looked a moment later.
        return reading.at >= now || Duration.nanoseconds(now - reading.at) < age
    }
}
