package import StalecastWire

package struct MessageFilter: Sendable {
    private let patterns: [KeyPattern]

    /// - Parameter patterns: none wants every message.
    package init(_ patterns: [KeyPattern]) { self.patterns = patterns }

    /// True for a message about a parameter that fits one of the patterns. Also true for one that does not say what
    /// changed: anything may have.
    package func wants(_ data: String) -> Bool {
        guard !patterns.isEmpty, let json = JSONValue.ifValid(data.utf8), let keys = json["changedKeys"]?.array
        else { return true }
        return keys.compactMap(\.string).contains { key in patterns.contains { $0.matches(key) } }
    }
}
