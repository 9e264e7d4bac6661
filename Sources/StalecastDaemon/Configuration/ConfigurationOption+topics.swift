import StalecastHub
import StalecastWire
import Yams

extension ConfigurationOption {
    /// The row of `topics`, whose entries are mappings.
    static let topics = ConfigurationOption(
        entries: "topics", \.topics,
        [
            EntryField(
                "name", "1 to 255 characters of A-Z a-z 0-9 - _ . ~ %; unique",
                "What clients subscribe to."),
            EntryField(
                "scopes", "list of PROJECT/NAMESPACE, at least one",
                "The scopes whose changes reach the topic."),
            EntryField(
                "keys", "list of patterns with * and ?; may be left out: every change",
                "Only versions that change a parameter matching one of these reach the topic."),
        ],
        .live,
        "Topics besides PUSH_RC for all client templates and PUSH_RC_SERVER for all server templates (namespace "
            + "firebase-server); an entry of that name replaces them with its own scopes.",
        spell: { topic in
            let scopes = topic.scopes.map(\.description).joined(separator: ", ")
            return "{name: \(topic.name), scopes: [\(scopes)], keys: \(topic.keys.map(\.description))}"
        },
        read: { $1.readTopics($0) })
}

extension ConfigurationReading {
    /// Reads the list under `topics`; every problem is noted, entries with problems are left out. Whether the scopes
    /// exist is checked when the projects are known.
    mutating func readTopics(_ node: Node) {
        var taken: [TopicName: String] = [:]
        configuration.topics = entries(of: node, at: "topics").compactMap { topic($1, at: $0, &taken) }
    }

    /// - Parameter taken: the entries by name.
    private mutating func topic(
        _ entry: Node, at path: String, _ taken: inout [TopicName: String]
    ) -> TopicBinding? {
        guard let entry = self.entry(entry, at: path, required: ["name", "scopes"], optional: ["keys"]) else {
            return nil
        }
        let name = value("name", of: entry, parse: TopicName.init)
        if let name, let first = taken.updateValue(path, forKey: name) {
            note("\(path).name: topic \(name) is already \(first); join the two entries", at: "\(path).name")
        }
        let scopes = values("scopes", of: entry, parse: scope)
        let keys = values("keys", of: entry, or: [], parse: KeyPattern.init)
        mentionedScopes += (scopes ?? []).enumerated().map { ("\(path).scopes[\($0)]", $1) }
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
