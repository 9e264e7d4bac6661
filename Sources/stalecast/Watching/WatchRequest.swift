import StalecastWire

extension Watcher {
    /// Target of the watch and its start.
    struct Request: Sendable {
        let topics: [TopicName]
        /// Scope of the messages; a topic's other scopes are not heard.
        let scope: Scope
        /// Resume after this cursor; nil begins now.
        var cursor: String?
        /// The version held, so that a STALE comes at once when it is older; nil without. Counts until a cursor came.
        var have: Int64?

        /// Resumes after `cursor` from now on, which says more than the version held at the beginning.
        mutating func advance(to cursor: String) {
            guard !cursor.isEmpty else { return }
            self.cursor = cursor
            have = nil
        }

        /// The query of `/v1/events`, `/v1/poll` and `/v1/state`.
        var query: RequestQuery {
            let rest: RequestQuery = [
                "project": scope.project.description, "namespace": scope.namespace.description,
                "have": have.map { String($0) },
            ]
            return topics.reduce(rest) { $0 + ["topic": $1.description] }
        }
    }
}
