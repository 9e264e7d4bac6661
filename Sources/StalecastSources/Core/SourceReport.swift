package import StalecastWire

/// What is worth a line in the log about a source; each of them once, however often it is looked at.
package enum SourceReport: Sendable, Hashable {
    case adopted(VersionNumber, hasFenceTimedOut: Bool)
    /// Something else is wrong than before.
    case problem(OriginProblem)
    /// All is well again, after so many failed looks.
    case recovered(failures: Int)
    /// The origin's public answer did not show the version in time; `seen` is what it showed last.
    case fenceTimeout(seen: String)
}
