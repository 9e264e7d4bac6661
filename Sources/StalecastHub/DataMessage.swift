package import StalecastWire

/// Whom a sent message is for.
package enum SendTarget: Sendable {
    case topic(TopicName)
    /// Subscribers for whose topics the condition holds.
    case condition(TopicCondition)
}

/// A message somebody sent through `messages:send`: exactly that data, to whoever is connected now. It has no
/// version and no cursor; nothing is stored or replayed.
package final class DataMessage: Sendable {
    package let target: SendTarget
    /// The data as one line of JSON.
    package let json: [UInt8]
    /// As a server-sent event without `id`, in one HTTP chunk.
    package let chunk: SharedBytes

    package init(target: SendTarget, data: JSONObject) {
        self.target = target
        json = JSONValue.object(data).encoded(.wire)
        chunk = SharedBytes(ChunkEncoder.chunk(SSEEncoder.event(data: json)))
    }

    /// Whether a subscriber of `topics` gets it.
    package func reaches(_ topics: some Sequence<TopicIndex>, on board: TopicBoard) -> Bool {
        let names = topics.map { board[$0].name }
        switch target {
        case .topic(let name): return names.contains(name)
        case .condition(let condition): return condition.holds { names.contains($0) }
        }
    }
}
