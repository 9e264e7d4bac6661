import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    static let daemon: [ControlOperation] = [
        operation(
            "status", "GET", "/status", tag: "Daemon", summary: "What the daemon does, for people and scripts",
            answers: [.json("The status", .schema("Status"))], errors: [], .call(Call.status)),
        operation(
            "timeline", "GET", "/v1/timeline", tag: "Daemon",
            summary: "This daemon's last hour by minute and last day by quarter of an hour, with the versions made",
            answers: [.json("The time line", .schema("Timeline"))], errors: [], .call(Call.timeline)),
        operation(
            "listAudit", "GET", "/v1/audit", tag: "Daemon",
            summary: "Who changed what at this daemon, newest first: up to the last 3,000 lines of the audit log",
            parameters: [
                pageSize("At most 1000; 100 when absent."),
                .query("project", "Only what concerns it, or all projects.", schema: text),
                .query("namespace", "Only what concerns it; asks for a project.", schema: text),
                .flag("refused", "Only what was refused or failed."),
            ], answers: [.json("The lines", .schema("AuditEntries"))], errors: [400], action: .operate,
            .call(Call.listAudit)),
        operation(
            "metrics", "GET", "/metrics", tag: "Daemon", summary: "Figures in Prometheus' text format",
            answers: [APIAnswer("The figures", content: [.init("text/plain")])], errors: [], access: .metrics,
            .call(Call.metrics)),
        operation(
            "health", "GET", "/healthz", tag: "Daemon", summary: "Whether the process answers",
            answers: [APIAnswer("It does", content: [.init("text/plain")])], errors: [], access: .anyone,
            .call(Call.health)),
        operation(
            "readiness", "GET", "/readyz", tag: "Daemon", summary: "Whether publishes can be committed",
            answers: [
                .json("It is ready", .schema("Readiness")),
                .json("It is not ready, with the reasons", .schema("Readiness"), status: 503),
            ], errors: [], access: .anyone, .call(Call.readiness)),
        operation(
            "openapi", "GET", "/openapi.json", tag: "Daemon", summary: "This document",
            answers: [.json("OpenAPI 3.1", ["type": "object", "required": ["openapi", "paths"]])], errors: [],
            about: .document, .call(Call.openAPI)),
    ]

    static let backups: [ControlOperation] = [
        operation(
            "backUp", "POST", "/v1/backup", tag: "Daemon",
            summary: "Makes a backup of the store and the webhooks; the answer is the file",
            answers: [APIAnswer("The backup", content: [.init("application/octet-stream")])], errors: [429],
            action: .operate, .call(Call.backUp))
    ]

    static let daemonSchemas: JSONObject = [
        "Status": .objectSchema(
            [
                "version, epoch, cursor": text, "pid": integer, "startedAt": moment, "ready": flag,
                "notReady": .listSchema(text), "degraded": .listSchema(text), "scopes": .listSchema(anyObject),
                "topics": .listSchema(anyObject), "edge, fetch, clients, store, process": anyObject,
                "auth": .recordSchema([
                    "mode": ["type": "string", "enum": ["off", "observe", "enforce"]], "refused, observed": integer,
                ]), "cluster": .objectSchema(["name": text], required: ["name"]),
            ], required: ["version", "pid", "ready", "cursor", "scopes", "topics", "edge", "store"]),
        "Timeline": .recordSchema([
            "since": moment, "hour": .schema("TimelineSeries"), "day": .schema("TimelineSeries"),
            "publishes": .listSchema(
                .recordSchema(
                    ["time": moment, "project, namespace, versionNumber, updateType": text, "updateUser": anyObject],
                    optional: ["updateUser"])),
        ]),
        "AuditEntries": .recordSchema([
            "entries": .listSchema([
                "type": "object", "required": ["time", "action", "sentence"], "additionalProperties": true,
                "properties": [
                    "time": moment, "seq": integer, "action": text, "actor": text, "outcome": text, "sentence": text,
                ],
            ])
        ]),
        "TimelineSeries": .recordSchema([
            "stepSeconds": integer,
            "points": .listSchema(.recordSchema(["time": moment, "streams, deliveries, fetches, failures": integer])),
        ]),
        "Readiness": .objectSchema(
            ["ready": flag, "reasons": .listSchema(text), "degraded": .listSchema(text)], required: ["ready"]),
    ]
}
