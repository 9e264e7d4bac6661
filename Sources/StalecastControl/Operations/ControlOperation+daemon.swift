import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    static let daemon: [ControlOperation] = [
        operation(
            "status", "GET", "/status", tag: "Daemon", summary: "What the daemon does, for people and scripts",
            answers: [.json("The status", .schema("Status"))], errors: []
        ) { call async throws(GoogleError) in Answer(await call.control.reports.status()) },
        operation(
            "timeline", "GET", "/v1/timeline", tag: "Daemon",
            summary: "This daemon's last hour by minute and last day by quarter of an hour, with the versions made",
            answers: [.json("The time line", .schema("Timeline"))], errors: []
        ) { call async throws(GoogleError) in Answer(await call.control.reports.timeline()) },
        operation(
            "listAudit", "GET", "/v1/audit", tag: "Daemon",
            summary: "Who changed what at this daemon, newest first: up to the last 3,000 lines of the audit log",
            parameters: [
                .query(
                    "pageSize", "At most 1000; 100 when absent.",
                    schema: ["type": "integer", "minimum": 1, "maximum": .int(Int64.max)]),
                .query("project", "Only what concerns it, or all projects.", schema: ["type": "string"]),
                .query("namespace", "Only what concerns it; asks for a project.", schema: ["type": "string"]),
                .flag("refused", "Only what was refused or failed."),
            ], answers: [.json("The lines", .schema("AuditEntries"))], errors: [400], action: .operate
        ) { call async throws(GoogleError) in try await call.listAudit() },
        operation(
            "metrics", "GET", "/metrics", tag: "Daemon", summary: "Figures in Prometheus' text format",
            answers: [APIAnswer("The figures", content: [.init("text/plain")])], errors: [], access: .metrics
        ) { call async throws(GoogleError) in await call.metrics() },
        operation(
            "health", "GET", "/healthz", tag: "Daemon", summary: "Whether the process answers",
            answers: [APIAnswer("It does", content: [.init("text/plain")])], errors: [], access: .anyone
        ) { call async throws(GoogleError) in call.health() },
        operation(
            "readiness", "GET", "/readyz", tag: "Daemon", summary: "Whether publishes can be committed",
            answers: [
                .json("It is ready", .schema("Readiness")),
                .json("It is not ready, with the reasons", .schema("Readiness"), status: 503),
            ], errors: [], access: .anyone
        ) { call async throws(GoogleError) in await call.readiness() },
        operation(
            "openapi", "GET", "/openapi.json", tag: "Daemon", summary: "This document",
            answers: [.json("OpenAPI 3.1", ["type": "object", "required": ["openapi", "paths"]])], errors: [],
            about: .document
        ) { call async throws(GoogleError) in Answer(ControlDocument.json(version: call.control.configuration.version))
        },
    ]

    static let backups: [ControlOperation] = [
        operation(
            "backUp", "POST", "/v1/backup", tag: "Daemon",
            summary: "Makes a backup of the store and the webhooks; the answer is the file",
            answers: [APIAnswer("The backup", content: [.init("application/octet-stream")])], errors: [429],
            action: .operate
        ) { call async throws(GoogleError) in try await call.backUp() }
    ]

    static let daemonSchemas: JSONObject = [
        "Status": .objectSchema(
            [
                "version": ["type": "string"], "pid": ["type": "integer"],
                "startedAt": ["type": "string", "format": "date-time"], "ready": ["type": "boolean"],
                "notReady": .listSchema(["type": "string"]), "degraded": .listSchema(["type": "string"]),
                "epoch": ["type": "string"], "cursor": ["type": "string"], "scopes": .listSchema(["type": "object"]),
                "topics": .listSchema(["type": "object"]), "edge": ["type": "object"], "fetch": ["type": "object"],
                "clients": ["type": "object"],
                "auth": .recordSchema([
                    "mode": ["type": "string", "enum": ["off", "observe", "enforce"]],
                    "refused": ["type": "integer"], "observed": ["type": "integer"],
                ]),
                "cluster": .objectSchema(["name": ["type": "string"]], required: ["name"]),
                "store": ["type": "object"], "process": ["type": "object"],
            ], required: ["version", "pid", "ready", "cursor", "scopes", "topics", "edge", "store"]),
        "Timeline": .recordSchema([
            "since": ["type": "string", "format": "date-time"], "hour": .schema("TimelineSeries"),
            "day": .schema("TimelineSeries"),
            "publishes": .listSchema(
                .recordSchema(
                    [
                        "time": ["type": "string", "format": "date-time"], "project": ["type": "string"],
                        "namespace": ["type": "string"], "versionNumber": ["type": "string"],
                        "updateType": ["type": "string"], "updateUser": ["type": "object"],
                    ], optional: ["updateUser"])),
        ]),
        "AuditEntries": .recordSchema([
            "entries": .listSchema([
                "type": "object", "required": ["time", "action", "sentence"], "additionalProperties": true,
                "properties": [
                    "time": ["type": "string", "format": "date-time"], "seq": ["type": "integer"],
                    "action": ["type": "string"], "actor": ["type": "string"], "outcome": ["type": "string"],
                    "sentence": ["type": "string"],
                ],
            ])
        ]),
        "TimelineSeries": .recordSchema([
            "stepSeconds": ["type": "integer"],
            "points": .listSchema(
                .recordSchema([
                    "time": ["type": "string", "format": "date-time"], "streams": ["type": "integer"],
                    "deliveries": ["type": "integer"], "fetches": ["type": "integer"], "failures": ["type": "integer"],
                ])),
        ]),
        "Readiness": .objectSchema(
            [
                "ready": ["type": "boolean"], "reasons": .listSchema(["type": "string"]),
                "degraded": .listSchema(["type": "string"]),
            ], required: ["ready"]),
    ]
}
