import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    static let daemon: [ControlOperation] = [
        operation(
            APIOperation(
                "status", "GET", "/status", tag: "Daemon", summary: "What the daemon does, for people and scripts",
                answers: [.json("The status", .schema("Status"))], errors: [])
        ) { call async throws(GoogleError) in Answer(await call.control.status()) },
        operation(
            APIOperation(
                "metrics", "GET", "/metrics", tag: "Daemon", summary: "Figures in Prometheus' text format",
                answers: [APIAnswer("The figures", content: [.init("text/plain")])], errors: []), access: .metrics
        ) { call async throws(GoogleError) in await call.metrics() },
        operation(
            APIOperation(
                "health", "GET", "/healthz", tag: "Daemon", summary: "Whether the process answers",
                answers: [APIAnswer("It does", content: [.init("text/plain")])], errors: []), access: .anyone
        ) { call async throws(GoogleError) in call.health() },
        operation(
            APIOperation(
                "readiness", "GET", "/readyz", tag: "Daemon", summary: "Whether publishes can be committed",
                answers: [
                    .json("It is ready", .schema("Readiness")),
                    .json("It is not, and why", .schema("Readiness"), status: 503),
                ], errors: []), access: .anyone
        ) { call async throws(GoogleError) in await call.readiness() },
        operation(
            APIOperation(
                "openapi", "GET", "/openapi.json", tag: "Daemon", summary: "This document",
                answers: [.json("OpenAPI 3.1", ["type": "object", "required": ["openapi", "paths"]])], errors: []),
            about: .document
        ) { call async throws(GoogleError) in Answer(ControlDocument.json(version: call.control.configuration.version))
        },
    ]

    static let backups: [ControlOperation] = [
        operation(
            APIOperation(
                "backUp", "POST", "/v1/backup", tag: "Daemon",
                summary: "Makes a backup of the store and the webhooks; the answer is the file",
                answers: [APIAnswer("The backup", content: [.init("application/octet-stream")])], errors: [429],
                action: .operate)
        ) { call async throws(GoogleError) in try await call.backUp() }
    ]

    static let daemonSchemas: JSONObject = [
        "Status": .objectSchema(
            [
                "version": ["type": "string"], "pid": ["type": "integer"],
                "startedAt": ["type": "string", "format": "date-time"], "ready": ["type": "boolean"],
                "notReady": .listSchema(["type": "string"]), "degraded": .listSchema(["type": "string"]),
                "epoch": ["type": "string"],
                "cursor": ["type": "string"], "scopes": .listSchema(["type": "object"]),
                "topics": .listSchema(["type": "object"]), "edge": ["type": "object"], "fetch": ["type": "object"],
                "clients": ["type": "object"],
                "auth": .objectSchema(
                    ["refused": ["type": "integer"], "observed": ["type": "integer"]],
                    required: ["refused", "observed"]),
                "store": ["type": "object"], "process": ["type": "object"],
            ], required: ["version", "pid", "ready", "cursor", "scopes", "topics", "edge", "store"]),
        "Readiness": .objectSchema(
            [
                "ready": ["type": "boolean"], "reasons": .listSchema(["type": "string"]),
                "degraded": .listSchema(["type": "string"]),
            ], required: ["ready"]),
    ]
}
