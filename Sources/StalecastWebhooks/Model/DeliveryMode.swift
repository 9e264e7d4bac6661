/// Versions that a webhook is owed.
package enum DeliveryMode: Sendable, Hashable {
    /// The newest only: versions that came while one was in flight or failing are folded into one. The default.
    case latest
    /// Every version, in any order, several at once.
    case all
    /// Every version in order, one at a time.
    case fifo(onExhaustion: Exhaustion)

    /// Rule of a `fifo` webhook for a version whose attempts are used up.
    package enum Exhaustion: String, Sendable, Hashable, CaseIterable {
        /// Keeps trying that version; nothing after it is sent. The default.
        case block
        /// Moves it to the dead letters and goes on with the next.
        case advance
    }

    /// Name on the wire: `latest`, `all`, `fifo` (which blocks) or `fifo-advance`.
    package var name: String {
        switch self {
        case .latest: "latest"
        case .all: "all"
        case .fifo(.block): "fifo"
        case .fifo(.advance): "fifo-advance"
        }
    }

    /// All modes, in the order of the documentation.
    package static let allCases: [DeliveryMode] = [
        .latest, .all, .fifo(onExhaustion: .block), .fifo(onExhaustion: .advance),
    ]

    /// nil unless `name` is one of ``allCases``.
    package init?(name: String) {
        guard let mode = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = mode
    }
}
