package import Foundation

/// The pause after failures that say "not now": 120 s, doubled with each further failure while below 4 h (the iOS SDK's
/// rule), spread uniformly over half to one and a half times that, so that clients that failed together do not return
/// together. A `Retry-After` of the server takes the table's place.
package struct FetchThrottle: Sendable, Emptiable {
    /// Failures in a row; 0 after a success.
    @OrEmpty private(set) var failures = 0
    /// Time before which no fetch is made; nil for no pause.
    private(set) var end: Date?
    /// Whether `end` is the server's own word, its `Retry-After`.
    @OrEmpty private(set) var isNamedByServer = false

    /// Statuses that throttle: those of the iOS, Android and JS SDKs taken together.
    static let statuses: Set<Int> = [429, 500, 502, 503, 504]
    static let firstPause: TimeInterval = 120
    /// No pause grows beyond this, in seconds.
    static let longestPause: TimeInterval = 4 * 3600

    /// The server answered with one of ``statuses``.
    ///
    /// - Parameters:
    ///   - random: of `0 ..< 1`.
    ///   - retryAfter: seconds the server asked for; nil when it did not.
    package mutating func failed(at now: Date, random: Double, retryAfter: TimeInterval?) {
        // The longest pause is reached long before: more would only lengthen the loop that computes it.
        failures = min(failures + 1, 30)
        isNamedByServer = retryAfter != nil
        let pause = retryAfter ?? Self.pause(afterFailures: failures) * (0.5 + random)
        end = now.addingTimeInterval(min(max(0, pause), Self.longestPause))
    }

    mutating func reset() { self = FetchThrottle() }

    /// The pause of the table before its spread, in seconds; `failures` from 1.
    package static func pause(afterFailures failures: Int) -> TimeInterval {
        var pause = firstPause
        for _ in 1..<max(failures, 1) where pause * 2 < longestPause { pause *= 2 }
        return pause
    }

    package init() {}

    /// The end of the pause if that is still to come. An end further away than any pause lasts belongs to a clock that
    /// was set back, and counts as over.
    func end(after now: Date) -> Date? {
        guard let end, end > now, end.timeIntervalSince(now) <= Self.longestPause else { return nil }
        return end
    }
}
