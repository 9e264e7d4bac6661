package import StalecastWire

/// The beginning of an imported version's description. It tells a later import what is here already.
package struct ImportMark: Sendable {
    /// `shop-prod/firebase`.
    package let origin: String
    private let prefix: String

    /// Firebase's limit, in characters.
    private static let maxDescription = 1024

    package init(project: String, namespace: Namespace) {
        origin = "\(project)/\(namespace)"
        prefix = "[firebase \(origin) "
    }

    /// `[firebase shop-prod/firebase 42] 2026-08-20T14:05:09Z, CONSOLE, Ann <ann@example.com>: summer sale`.
    package func description(of version: VersionMetadata) -> String {
        let user = version.updateUser
        let person = [user.name, user.email.isEmpty || user.name.isEmpty ? user.email : "<\(user.email)>"]
        let facts = [
            version.updateTime.description, version.updateOrigin == .unspecified ? "" : version.updateOrigin.rawValue,
            person.filter { !$0.isEmpty }.joined(separator: " "),
            version.rollbackSource.map { "rollback to \($0)" } ?? "",
        ]
        let text = "\(prefix)\(version.number)] " + facts.filter { !$0.isEmpty }.joined(separator: ", ")
        let whole = version.description.isEmpty ? text : "\(text): \(version.description)"
        return String(whole.unicodeScalars.prefix(Self.maxDescription))
    }

    /// The origin's number of an imported version; nil for any other description.
    package func number(in description: String) -> VersionNumber? {
        guard description.hasPrefix(prefix) else { return nil }
        let rest = description.dropFirst(prefix.count)
        guard let end = rest.firstIndex(of: "]") else { return nil }
        return VersionNumber(rest[..<end])
    }
}

/// Versions of an origin that are still to be published here.
package struct ImportPlan: Sendable {
    /// Number of versions that the origin lists.
    package let found: Int
    /// nil for an origin without versions.
    package let newest: VersionMetadata?
    /// Oldest first.
    package let missing: [VersionMetadata]
    /// Numbers of the versions that others published here since the last import, newest first.
    package let others: [Int64]

    /// - Parameters:
    ///   - origin: oldest first.
    ///   - here: Firebase's `version` objects, newest first.
    package init(origin: [VersionMetadata], here: [JSONValue], mark: ImportMark) {
        let marks = here.map { mark.number(in: $0.word("description", "")) }
        // Without those that were left out before, because they are not valid here.
        let last = marks.compactMap(\.self).max() ?? 0
        found = origin.count
        newest = origin.last
        missing = origin.filter { $0.number > last }
        others = zip(here, marks).prefix { $1 == nil }.compactMap { version, _ in version["versionNumber"]?.int64 }
    }
}
