import StalecastHub
import StalecastWire
import Yams

extension ConfigurationOption {
    /// The row of `topics`, whose entries are mappings.
    static let topics = ConfigurationOption(
        entries: "topics", \.topics,
        [
            .required("name", "1 to 255 characters of A-Z a-z 0-9 - _ . ~ %; unique", "What clients subscribe to."),
            .required("scopes", "list of PROJECT/NAMESPACE, at least one", "The scopes whose changes reach the topic."),
            .optional(
                "keys", "list of patterns with * and ?", or: "every change",
                "Only versions that change a parameter matching one of these reach the topic."),
        ],
        .live,
        "Topics besides PUSH_RC for all client templates and PUSH_RC_SERVER for all server templates (namespace "
            + "firebase-server); an entry of that name replaces them with its own scopes.",
        spell: { topic in
            let scopes = topic.scopes.map(\.description).joined(separator: ", ")
            return "{name: \(topic.name), scopes: [\(scopes)], keys: \(topic.keys.map(\.description))}"
        },
        read: { $1.topic($0) })
}

extension ConfigurationReading {
    /// Whether the scopes exist is checked when the projects are known.
    fileprivate mutating func topic(_ entry: Entry) -> TopicBinding? {
        let name = value("name", of: entry, parse: TopicName.init)
        if let name { claim("topic \(name)", "name", of: entry, "; join the two entries") }
        let scopes = values("scopes", of: entry, parse: scope)
        let keys = values("keys", of: entry, or: [], parse: KeyPattern.init)
        mentionedScopes += (scopes ?? []).enumerated().map { ("\(entry.path).scopes[\($0)]", $1) }
        guard let name, let scopes, let keys else { return nil }
        return TopicBinding(name: name, scopes: scopes, keys: keys)
    }
}

func scope(_ text: String) throws -> Scope {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 2 else {
        throw InvalidValue("\"\(text)\" is no scope; write PROJECT/NAMESPACE, such as demo/firebase")
    }
    return Scope(project: try ProjectID(parts[0]), namespace: try Namespace(parts[1]))
}
