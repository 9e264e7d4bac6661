import Synchronization

/// Counts what became of requests that waited for the log.
package final class FreshnessTally: Sendable {
    package enum Cause: String, CaseIterable {
        /// A fetch whose client named no cursor.
        case newest
        /// A fetch, stream or poll whose client has seen more than this node.
        case cursor
    }

    private let counts = Mutex<[Cause: [String: Int]]>([:])

    package init() {}

    package func counted(_ freshness: Freshness, _ cause: Cause) -> Freshness {
        counts.withLock { $0[cause, default: [:]][freshness.word, default: 0] += 1 }
        return freshness
    }

    package var all: [(cause: Cause, outcome: String, count: Int)] {
        let counts = counts.withLock { $0 }
        return Cause.allCases.flatMap { cause in
            Freshness.words.map { (cause, $0, counts[cause]?[$0] ?? 0) }
        }
    }
}

extension Freshness {
    fileprivate static let words = ["fresh", "unverified", "refused", "beyond"]

    fileprivate var word: String {
        switch self {
        case .fresh: "fresh"
        case .unverified: "unverified"
        case .refused: "refused"
        case .beyondTheLog: "beyond"
        }
    }
}
