import StalecastHTTP
package import StalecastWire

/// A long-poll that a cache sends once and answers to many clients: `round=` in the query asks for it.
///
/// All clients that are current hold the same cursor, so their polls have one URL. Each answer leads its reader to
/// another URL: a message to a newer cursor, silence to the next round. So no answer that a cache keeps can hide a newer
/// one, and none makes a client ask the cache again and again. Rounds end at multiples of the wait since 1970: clients
/// that came at different times meet in the next round.
package struct SharedPoll: Sendable, Equatable {
    /// Caches and proxies in front of Edge wait for an answer for 30 s and more.
    package static let defaultWaitMs = 20_000
    /// Seconds for which a cache may answer with it: long enough for clients that waited in a queue of the cache.
    private static let keptSeconds = 5
    /// Fields that may carry a credential: clients with different ones share no answer.
    package static let vary = "Vary: Authorization, X-API-Key, X-Goog-Api-Key, Cookie\r\n"

    /// Round that a silent poll leads to.
    private let next: Int64
    /// Round that a message leads to: its cursor makes another URL already, and the round goes on.
    private let current: Int64
    /// Time to hold the poll, in milliseconds; 0 answers at once.
    package let holdMs: Int
    /// Whether a cache may keep the answer: false for a poll without a wait, whose silence leads to no other URL.
    private let isKept: Bool

    /// - Parameters:
    ///   - asked: round in the query; 0 for a client that begins.
    ///   - waitMs: length of a round, in milliseconds.
    ///   - hasCursor: false for a client that asks for a cursor; it gets the newest at once.
    package init(after asked: Int64, waitMs: Int, hasCursor: Bool, at now: Timestamp) {
        isKept = waitMs > 0
        guard waitMs > 0 else {
            (current, next, holdMs) = (asked, asked, 0)
            return
        }
        let (wait, now) = (Int64(waitMs), max(0, now.microseconds / 1000))
        current = now / wait
        // Timers and clocks disagree by milliseconds: a client that is early must not get the round that it has.
        next = current + (asked == current + 1 ? 2 : 1)
        holdMs = hasCursor ? Int(next * wait - now) : 0
    }

    package func round(isSilent: Bool) -> Int64 { isSilent ? next : current }

    /// `Cache-Control` of its answer. Browsers keep none: only a shared cache obeys `s-maxage`.
    package var caching: String { isKept ? "public, max-age=0, s-maxage=\(Self.keptSeconds)" : "no-store" }

    static func round(_ text: String) throws(GoogleError) -> Int64 {
        guard let round = Int64(text), (0...maxRound).contains(round) else {
            throw .invalidArgument("round is the number in the last answer, or 0 for the first poll")
        }
        return round
    }

    /// The largest integer that every JSON reader keeps.
    private static let maxRound: Int64 = 1 << 53
}
