import StalecastHTTP
import StalecastWire

extension Call {
    private static let auditPageSize: Int64 = 100
    private static let mostAuditPageSize: Int64 = 1000

    /// `GET /v1/audit`: the newest lines of the audit log, each with what it says in words.
    @concurrent
    func listAudit() async throws(GoogleError) -> Answer {
        let size = try query.integer("pageSize") ?? Self.auditPageSize
        guard size > 0 else { throw .invalidField("pageSize", "pageSize must be greater than 0") }
        let isRefused = try query.flag("refused")
        let (project, namespace) = (query["project"], query["namespace"])
        if namespace != nil, project == nil { throw .invalidField("namespace", "namespace needs a project beside it") }
        let lines = control.audit?.newest(Int(min(size, Self.mostAuditPageSize))) { line in
            (!isRefused || line.isRefused) && (project.map { line.concerns(project: $0, namespace: namespace) } ?? true)
        }
        let entries = (lines ?? []).map { line in
            var entry = line
            entry["sentence"] = .string(AuditSentence(line).sentence)
            return JSONValue.object(entry)
        }
        return Answer(["entries": .array(entries)])
    }
}
