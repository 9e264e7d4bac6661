package import StalecastWire

/// Whether publishes can be committed; reads go on in every case.
package enum StoreHealth: Sendable, Hashable {
    case ok
    /// Publishes are refused until there is space; no restart needed.
    case diskFull(since: Timestamp)
    /// Nothing is committed any more in this process; it should exit non-zero and be started again.
    case failed(reason: String)
    /// ``TemplateStore/close()`` was called.
    case closed

    /// What readiness shows.
    package var canCommit: Bool { self == .ok }
}

/// Something worth a log line. The store has no logger; the daemon turns these into its own.
package struct StoreNotice: Sendable, Hashable {
    /// How loud the line should be.
    package enum Level: Sendable, Hashable { case info, warning, error }

    package let level: Level
    /// A constant lower-case phrase.
    package let message: String
    /// What varies, by metadata key.
    package let details: [String: String]

    package init(_ level: Level, _ message: String, _ details: [String: String] = [:]) {
        self.level = level
        self.message = message
        self.details = details
    }
}
