package import StalecastWire

/// Tokens that were refused a moment ago, by their hash: what comes again and again is verified once. A client with a
/// token that has expired sends it at each attempt.
package struct RefusedTokens: Sendable {
    /// About 160 bytes each; the oldest goes first.
    package static let capacity = 4096
    static let life = Duration.seconds(60)

    private var entries: [SecretDigest: (denial: Denial, at: Timestamp)] = [:]
    private var order: [SecretDigest] = []
    private var oldest = 0
    /// Grows when keys or issuers become others: what was decided before does not count any more.
    package private(set) var turn = 0

    package init() {}

    package func denial(of token: SecretDigest, at now: Timestamp) -> Denial? {
        guard let entry = entries[token], entry.at <= now, now < entry.at.advanced(by: Self.life) else { return nil }
        return entry.denial
    }

    /// - Parameter turn: in which it was decided.
    package mutating func insert(_ denial: Denial, of token: SecretDigest, at now: Timestamp, in turn: Int) {
        guard turn == self.turn, Self.holds(denial) else { return }
        guard entries.updateValue((denial, now), forKey: token) == nil else { return }
        guard order.count == Self.capacity else { return order.append(token) }
        entries[order[oldest]] = nil
        order[oldest] = token
        oldest = (oldest + 1) % Self.capacity
    }

    package mutating func removeAll() {
        entries.removeAll()
        order.removeAll()
        oldest = 0
        turn += 1
    }

    /// Whether a reason is one still as time goes on, with the same keys.
    private static func holds(_ denial: Denial) -> Bool {
        switch denial {
        case .malformed, .expired, .unknownIssuer, .wrongAlgorithm, .badSignature, .wrongAudience, .badClaims: true
        default: false
        }
    }
}
