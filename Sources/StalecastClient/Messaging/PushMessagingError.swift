public import Foundation
import StalecastWire

/// Why a topic was not subscribed to or unsubscribed from.
public enum PushMessagingError: Error, Sendable, Hashable, LocalizedError {
    /// The name breaks FCM's rule, `[a-zA-Z0-9-_.~%]{1,255}`.
    case invalidTopicName(String)
    /// The app is configured for Firebase itself, whose topics need Firebase's own SDK.
    case noTopics
    /// The server has no such topic. The subscription is kept, for the time when it has.
    case unknownTopic(String)

    /// A sentence for the developer.
    public var errorDescription: String? {
        switch self {
        case .invalidTopicName(let name):
            "\"\(name.prefix(80))\" is no topic: a name has 1 to 255 characters of A-Z a-z 0-9 - _ . ~ %"
        case .unknownTopic(let name):
            "the server has no topic \(name); add it to the server's topics, or unsubscribe from it"
        case .noTopics: "topics need a Stalecast server; with StalecastOptions.firebase use an update listener"
        }
    }

    /// The topic's name, without the prefix `/topics/` that Firebase tolerates.
    static func checked(_ topic: String) throws -> String {
        let name = topic.hasPrefix("/topics/") ? String(topic.dropFirst(8)) : topic
        guard (try? TopicName(name)) != nil else { throw Self.invalidTopicName(topic) }
        return name
    }
}
