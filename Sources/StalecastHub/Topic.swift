package import StalecastWire

/// A topic's place in a ``TopicBoard``; stable for the life of the process, also across reloads.
package struct TopicIndex: Hashable, Sendable {
    package let rawValue: Int32

    package init(_ rawValue: Int) { self.rawValue = Int32(rawValue) }
    package init(rawValue: Int32) { self.rawValue = rawValue }
}

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

    /// Whether a change of one of its scopes is announced by it.
    package func hears(_ change: TemplateChange) -> Bool {
        guard !keys.isEmpty, let changed = change.changedKeys else { return true }
        return changed.contains { key in keys.contains { $0.matches(key) } }
    }
}

/// A topic's state: for each scope it is bound to, the last version it announced.
package struct Topic: Sendable {
    package internal(set) var binding: TopicBinding
    package internal(set) var lines: [Line]
    /// True when a reload took the topic away; nobody can subscribe any more.
    package internal(set) var isRetired = false

    /// One scope within a topic.
    package struct Line: Sendable {
        package let scope: Scope
        /// The change announced last; nil when the scope has no version the topic ever heard.
        package internal(set) var latest: TemplateChange?
        /// Its live message, encoded; nil for a change that was announced before this process started.
        package internal(set) var notice: Notice?
    }

    package var name: TopicName { binding.name }
}
