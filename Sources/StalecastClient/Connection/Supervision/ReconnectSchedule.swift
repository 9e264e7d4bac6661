package import Foundation

/// End of an attempt or a stream, with its reason.
package struct LinkLoss: Error, Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// No connection, or it broke.
        case broken
        /// The server ended the stream in good order.
        case closed
        /// No byte within the limit, ever or for too long: something in between may hold them back.
        case silent
        /// An answer that is not ours: a captive portal, a proxy's page.
        case foreign
        /// An error status, or a redirect that leads nowhere.
        case refused(status: Int)
        /// 204: the server wants us never to come back.
        case dismissed
    }

    package var kind: Kind
    /// Reason for the developer.
    package var reason: String
    /// Seconds the server asked to be left alone for; nil when it did not.
    package var retryAfter: TimeInterval?

    package init(_ kind: Kind, _ reason: String, retryAfter: TimeInterval? = nil) {
        (self.kind, self.reason, self.retryAfter) = (kind, reason, retryAfter)
    }
}

/// Computes the wait before the next attempt: a least delay and on top of it an exponential one with full jitter; never
/// the last.
///
/// What the server said comes first: `Retry-After` is waited out with a spread of a quarter on top; `retry:` is the
/// delay after a stream that had been up, which the server has spread already, and the least one after a failure. While
/// it names none, the first delay is the least.
package struct ReconnectSchedule: Sendable {
    /// The first delay is this to twice as long, in seconds.
    package let firstDelay: TimeInterval
    /// Longest random part in seconds, but after a refusal.
    package let longestDelay: TimeInterval
    /// A connection that was up for so many seconds makes former failures void.
    package static let stableAfter: TimeInterval = 60
    /// Number of doublings for which a refusal such as 403 or 404 counts, and factor by which its delays may get
    /// longer: such a fault rarely ends soon.
    private static let refusalWeight = 3
    private static let refusalPatience: Double = 10
    /// No delay a server asks for in `retry:` is longer, in seconds.
    package static let longestServerDelay: TimeInterval = 3600

    /// Number of attempts or streams that ended in a row.
    package private(set) var failures = 0
    /// Seconds of the last `retry:`; nil before the first.
    package private(set) var serverDelay: TimeInterval?

    package init(firstDelay: TimeInterval, longestDelay: TimeInterval) {
        self.firstDelay = max(0, firstDelay)
        self.longestDelay = max(firstDelay, longestDelay)
    }

    package mutating func serverAsked(for delay: TimeInterval) {
        serverDelay = min(max(0, delay), Self.longestServerDelay)
    }

    /// The connection works, or the network is another: failures so far say nothing any more.
    package var withoutFailures: ReconnectSchedule {
        var fresh = self
        fresh.failures = 0
        return fresh
    }

    /// - Parameters:
    ///   - upFor: how long the stream was up, in seconds; nil when it never was.
    ///   - random: of `0 ..< 1`.
    /// - Returns: seconds until the next attempt.
    package mutating func lost(_ loss: LinkLoss, upFor: TimeInterval?, random: Double) -> TimeInterval {
        if let upFor, upFor >= Self.stableAfter { failures = 0 }
        failures += 1
        if let asked = loss.retryAfter { return max(asked, serverDelay ?? 0) * (1 + random / 4) + random * firstDelay }
        var (doublings, longest) = (failures - 1, longestDelay)
        if case .refused(let status) = loss.kind, !Self.isPassing(status) {
            doublings += Self.refusalWeight
            longest *= Self.refusalPatience
        }
        if doublings == 0, upFor != nil, let serverDelay { return serverDelay }
        let range = min(longest, firstDelay * pow(2, Double(min(doublings, 40))))
        return (serverDelay ?? firstDelay) + random * range
    }

    /// Statuses that say "later" rather than "no".
    package static func isPassing(_ status: Int) -> Bool { status >= 500 || [408, 425, 429].contains(status) }
}
