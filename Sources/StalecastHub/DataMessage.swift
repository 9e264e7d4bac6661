package import StalecastWire

/// A message that was sent through `messages:send`: exactly that data, to the clients that are connected now. It has no
/// version and no cursor; nothing is stored or replayed.
package final class DataMessage: Sendable {
    package let target: Target
    /// Only this project's subscribers can hear it.
    package let project: ProjectID
    /// The data as one line of JSON.
    package let json: [UInt8]
    /// Server-sent event without `id`, in one HTTP chunk.
    package let chunk: SharedBytes

    package init(target: Target, in project: ProjectID, data: JSONObject) {
        self.target = target
        self.project = project
        json = JSONValue.object(data).encoded(.wire)
        chunk = SharedBytes(ChunkEncoder.chunk(SSEEncoder.event(data: json)))
    }

    /// Whether a subscriber of `topics`, which are all of one project, gets it.
    package func reaches(_ topics: some Collection<Topic.Index>, on board: TopicBoard) -> Bool {
        guard let first = topics.first, board[first].scope.project == project else { return false }
        let names = topics.map { board[$0].name }
        switch target {
        case .topic(let name): return names.contains(name)
        case .condition(let condition): return condition.holds { names.contains($0) }
        }
    }

    package enum Target: Sendable {
        case topic(TopicName)
        case condition(TopicCondition)
    }
}
