import Foundation
import StalecastWire

/// What to watch and where to begin.
struct WatchRequest: Sendable {
    let topics: [TopicName]
    /// Resume after this cursor; nil begins now.
    var cursor: String?
    /// The version held, so that a STALE comes at once when it is older; nil without. Counts until a cursor came.
    var have: Int64?

    /// From now on resume after `cursor`, which says more than the version held at the beginning.
    mutating func advance(to cursor: String) {
        guard !cursor.isEmpty else { return }
        self.cursor = cursor
        have = nil
    }

    /// The query of `/v1/events` and `/v1/poll`.
    var query: [URLQueryItem] {
        topics.map { URLQueryItem(name: "topic", value: $0.description) }
            + (have.map { [URLQueryItem(name: "have", value: String($0))] } ?? [])
    }
}
