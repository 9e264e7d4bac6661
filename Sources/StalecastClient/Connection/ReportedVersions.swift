/// The newest version that was reported of each scope over each topic. Within one store they only grow, so that what is
/// not newer was reported before: over a connection that broke, or over the other transport.
struct ReportedVersions: Sendable {
    private struct Subject: Hashable {
        let topic: String
        let project: String?
        let namespace: String?
    }

    private var versions: [Subject: Int64] = [:]

    /// Whether the owner has not heard this yet; remembers it.
    mutating func isNews(_ event: ConnectionEvent) -> Bool {
        switch event {
        case .reset:
            versions = [:]
            return true
        case .stale(let notice) where notice.version > 0:
            let subject = Subject(topic: notice.topic, project: notice.project, namespace: notice.namespace)
            guard notice.version > versions[subject] ?? 0 else { return false }
            versions[subject] = notice.version
            return true
        default: return true
        }
    }
}
