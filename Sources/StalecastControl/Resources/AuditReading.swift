import StalecastHTTP
import StalecastWire

extension Call {
    /// `GET /v1/audit`: the newest lines of the audit log, each with what it says in words.
    @concurrent
    func listAudit() async throws(GoogleError) -> Answer {
        let size = try pageSize(100, most: 1000)
        let isRefused = try query.flag("refused")
        let (project, namespace) = (query["project"], query["namespace"])
        if namespace != nil, project == nil { throw .invalidField("namespace", "namespace needs a project beside it") }
        let lines = control.audit?.newest(size) { line in
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
