package import Foundation

/// Time and chance, replaced by tests that move the clock.
package struct ClientEnvironment: Sendable {
    /// The wall clock: ends of throttling and times of fetches outlive the process.
    package var now: @Sendable () -> Date
    /// Waits so many seconds; throws when its task is cancelled.
    package var sleep: @Sendable (TimeInterval) async throws -> Void
    /// A number of `0 ..< 1`, uniformly.
    package var random: @Sendable () -> Double

    package init(
        now: @escaping @Sendable () -> Date, sleep: @escaping @Sendable (TimeInterval) async throws -> Void,
        random: @escaping @Sendable () -> Double
    ) {
        (self.now, self.sleep, self.random) = (now, sleep, random)
    }

    package static let live = ClientEnvironment(
        now: { Date() },
        sleep: { try await Task.sleep(nanoseconds: UInt64(max(0, min($0, 1e9)) * 1e9)) },
        random: { Double.random(in: 0..<1) })
}
