/// How long to wait before the next connection: what the server asked for after a clean end, growing and random
/// after failures, so that the clients of a server that comes back do not arrive together.
struct ReconnectBackoff {
    /// The server's latest `retry:`; 3 s until it said one, the usual value of browsers.
    private(set) var retry: Duration = .seconds(3)
    private var failures = 0

    /// The longest wait after failures.
    static let maxWait: Duration = .seconds(30)
    /// The first wait after a failure is at least this, even when the server's `retry:` is shorter.
    static let minWait: Duration = .milliseconds(250)

    /// The server sent `retry: <ms>`.
    mutating func asked(milliseconds: Int) { retry = .milliseconds(min(max(milliseconds, 0), 3_600_000)) }

    /// A stream was opened.
    mutating func connected() { failures = 0 }

    /// The wait after a stream that ended as it should: the server spreads these itself.
    func afterEnd() -> Duration { retry }

    /// The wait after a failure: doubled each time up to ``maxWait``, then a random 50 to 100 % of that.
    ///
    /// - Parameter asked: the server's `Retry-After`, a lower bound; nil without.
    mutating func afterFailure(
        asked: Duration? = nil, using generator: inout some RandomNumberGenerator
    ) -> Duration {
        var wait = max(min(retry, Self.maxWait), Self.minWait)
        for _ in 0..<min(failures, 16) where wait < Self.maxWait { wait = min(wait * 2, Self.maxWait) }
        failures += 1
        let jittered = wait * Double.random(in: 0.5...1, using: &generator)
        return max(jittered, asked ?? .zero)
    }
}
