/// A mapping of the configuration file that groups options.
package struct ConfigurationSection: Sendable {
    /// Key path, `edge.poll`; empty for the file itself.
    package let path: String
    /// One sentence.
    package let meaning: String

    /// The last component of `path`.
    package var name: String { String(path.split(separator: ".").last ?? "") }

    /// The key path of the mapping it stands in; empty at top level.
    var parent: String { path.split(separator: ".").dropLast().joined(separator: ".") }

    /// Every section, each after the one it stands in.
    package static let all = [
        ConfigurationSection(path: "edge", meaning: "The public listener: streams, long-polls, fetches."),
        ConfigurationSection(path: "edge.poll", meaning: "How long a long-poll is held."),
        ConfigurationSection(path: "control", meaning: "The private listener: template API, status, metrics."),
        ConfigurationSection(path: "store", meaning: "What the store keeps."),
        ConfigurationSection(path: "sources", meaning: "Where scopes get their versions from, and what that may cost."),
        ConfigurationSection(path: "webhooks", meaning: "Registered URLs and how they are sent to."),
        ConfigurationSection(path: "log", meaning: "What is logged, and how."),
        ConfigurationSection(path: "shutdown", meaning: "How the daemon ends."),
    ]
}
