package import StalecastWire

/// A topic as configured: its name and what it is bound to.
package struct TopicBinding: Sendable, Hashable {
    package let name: TopicName
    package let scopes: [Scope]
    /// Only versions that change a parameter matching one of these are announced; empty means every version.
    package let keys: [KeyPattern]

    /// True for the hidden topic of a scope's Firebase invalidation streams, whose messages are in their dialect.
    package let isInvalidation: Bool

    package init(name: TopicName, scopes: [Scope], keys: [KeyPattern] = []) {
        self.name = name
        self.scopes = scopes
        self.keys = keys
        isInvalidation = false
    }

    /// The hidden topic of a scope.
    package init(invalidationsOf scope: Scope) {
        name = .ofScope(scope)
        scopes = [scope]
        keys = []
        isInvalidation = true
    }

    /// Whether the topic announces this change of one of its scopes.
    package func hears(_ change: TemplateChange) -> Bool { keys.hear(change) }

    /// The names among changed parameters that the topic is about; nil stays "anything".
    package func own(_ changed: [String]?) -> [String]? { keys.own(changed) }
}

/// State of a topic in one of the scopes it is bound to. As in FCM, a topic belongs to a project. A name that is bound
/// to several scopes has one `Topic` for each, so subscribers of one scope hear nothing of the others, and no message
/// is filtered.
package struct Topic: Sendable {
    package let name: TopicName
    package let scope: Scope
    package let isInvalidation: Bool
    package internal(set) var keys: [KeyPattern]
    /// The change announced last; nil while no version of the scope has concerned the topic.
    package internal(set) var latest: TemplateChange?
    /// Its live message, encoded; nil for a change that was announced before this process started.
    package internal(set) var encodedMessage: EncodedMessage?
    /// Topic that clients name, and the stage, for a stage's topic; see ``TopicBoard/Split``.
    package internal(set) var base: Index?
    package internal(set) var stage: Int?
    /// True when a reload took the topic away; no client can subscribe any more.
    package internal(set) var isRetired = false

    init(_ binding: TopicBinding, scope: Scope) {
        name = binding.name
        self.scope = scope
        isInvalidation = binding.isInvalidation
        keys = binding.keys
    }

    /// Names among the changed parameters that it is about; nil stays "anything".
    func own(_ changed: [String]?) -> [String]? {
        keys.own(changed)
    }

    /// A topic's place in a ``TopicBoard``; stable for the life of the process, also across reloads.
    package struct Index: Hashable, Sendable {
        package let rawValue: Int32

        package init(_ rawValue: Int) { self.rawValue = Int32(rawValue) }
        package init(rawValue: Int32) { self.rawValue = rawValue }
    }
}

extension [KeyPattern] {
    /// Whether a topic with these patterns announces a change of its scope; without any it announces all.
    func hear(_ change: TemplateChange) -> Bool {
        guard !isEmpty, let changed = change.changedKeys else { return true }
        return changed.contains(where: concern)
    }

    func own(_ changed: [String]?) -> [String]? { isEmpty ? changed : changed?.filter(concern) }

    func concern(_ key: String) -> Bool { contains { $0.matches(key) } }
}
