import StalecastHTTP

/// A path below `/v1/projects/{p}` that Firebase's clients use; names are decoded and unchecked.
package enum ProjectPath: Equatable {
    case fetch(project: String, namespace: String)
    case streamInvalidations(project: String, namespace: String)
    case createInstallation(project: String)
    case deleteInstallation(project: String, fid: String)
    case generateToken(project: String, fid: String)

    /// nil for every other path. Firebase's `:verb` belongs to the last segment and may be spelled `%3A`.
    package init?(_ path: some StringProtocol) {
        guard path.hasPrefix("/v1/projects/") else { return nil }
        var segments: [String] = []
        for raw in path.split(separator: "/", omittingEmptySubsequences: false).dropFirst(3) {
            guard let segment = Self.decoded(raw), !segment.isEmpty else { return nil }
            segments.append(segment)
        }
        self.init(segments)
    }

    private init?(_ segments: [String]) {
        switch (segments.count, segments.dropFirst().first) {
        case (2, "installations"): self = .createInstallation(project: segments[0])
        case (3, "installations"): self = .deleteInstallation(project: segments[0], fid: segments[2])
        case (4, "installations") where segments[3] == "authTokens:generate":
            self = .generateToken(project: segments[0], fid: segments[2])
        case (3, "namespaces"):
            let parts = segments[2].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let namespace = String(parts[0])
            switch parts.dropFirst().first {
            case "fetch": self = .fetch(project: segments[0], namespace: namespace)
            case "streamFetchInvalidations":
                self = .streamInvalidations(project: segments[0], namespace: namespace)
            default: return nil
            }
        default: return nil
        }
    }

    /// The one method it has beside OPTIONS.
    var method: String { if case .deleteInstallation = self { "DELETE" } else { "POST" } }

    /// nil for a broken encoding or a NUL.
    private static func decoded(_ segment: some StringProtocol) -> String? {
        guard let text = PercentEncoding.decode(segment), !text.utf8.contains(0) else { return nil }
        return text
    }
}
