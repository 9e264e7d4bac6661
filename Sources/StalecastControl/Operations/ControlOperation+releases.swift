import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire

extension ControlOperations {
    /// Versions that are released in stages. They are made with PUT of the template and `release=staged`.
    static func releases(under base: String) -> [ControlOperation] {
        let path = base + "/remoteConfig/release"
        let changes: [(id: String, verb: String, summary: String, action: ReleaseAction)] = [
            ("pauseRelease", "pause", "Stops an open release at its stage", .pause),
            ("resumeRelease", "resume", "Lets a paused release go on; its stage begins anew", .resume),
            ("advanceRelease", "advance", "Tells the next stage of an open or paused release now", .advance),
            ("promoteRelease", "promote", "Tells all clients of an open release now", .promote),
        ]
        return [
            operation(
                "getRelease", "GET", path, tag: "Releases", summary: "The newest release, open or not",
                parameters: [pretty], answers: [release], errors: [404], .template(TemplateResource.getRelease)),
            operation(
                "listReleases", "GET", base + "/remoteConfig/releases", tag: "Releases",
                summary: "Releases of the template, newest first",
                parameters: [
                    pageSize("How many at most; 20 when absent.", to: 100), pretty,
                ], answers: [.json("The releases", .recordSchema(["releases": .listSchema(.schema("Release"))]))],
                .template(TemplateResource.listReleases)),
            operation(
                "watchRelease", "GET", path + ":watch", tag: "Releases",
                summary: "Server-sent events: `release` as it changes, then `done`",
                answers: [APIAnswer("The events", content: [.init("text/event-stream")])], errors: [404],
                .template(TemplateResource.watchRelease)),
            change(
                "rollbackRelease", path + ":rollback",
                "Publishes the content of before as the next version, and tells the clients that were told",
                .publishing(TemplateResource.rollBackRelease)),
        ]
            + changes.map { id, verb, summary, action in
                change(
                    id, "\(path):\(verb)", summary,
                    .publishing { resource in
                        { call async throws(GoogleError) in try await resource.changeRelease(action, call) }
                    })
            }
    }

    private static func change(
        _ id: String, _ path: String, _ summary: String, _ run: ControlHandler.Run
    ) -> ControlOperation {
        operation(
            id, "POST", path, tag: "Releases", summary: summary, parameters: [pretty],
            body: APIBody(
                [
                    "type": "object",
                    "properties": [
                        "reason": ["type": "string", "maxLength": 1024], "percent": number,
                        "alerts": .listSchema(anyObject),
                    ],
                ], isRequired: false), answers: [release], errors: [400, 404, 409, 500, 503], action: .publish, run)
    }

    private static let release = APIAnswer.json("The release", .schema("Release"))

    /// Parameters for the way a publish is released.
    static let releaseParameters: [APIParameter] = [
        .query(
            "release", "`staged` tells a share of the clients first; as the scope's configuration says when absent.",
            schema: .enumSchema(["staged", "instant"])),
        .query("stages", "Of a staged one: shares of the clients, ascending, for example `1%,10%,100%`.", schema: text),
        .query("every", "Of a staged one: how long a stage lasts, for example `5m`.", schema: text),
        .query("bake", "Of a staged one: how long the last stage is watched.", schema: text),
        .query("first", "Of a staged one: ids of clients that belong to the first stage.", schema: text),
        .query(
            "anonymous",
            "Of a staged one: clients that say no id are told with the last stage, or split by their addresses.",
            schema: .enumSchema(["last", "address"])),
        .query(
            "onTooLittle", "Of a staged one: whether it goes on where too few clients were told to judge.",
            schema: .enumSchema(["go", "hold"])),
        .query(
            "gates",
            "Of a staged one: JSON with the limits that stop it, for example `{\"loss\":{\"margin\":\"2%\"}}`.",
            schema: text),
        .query(
            "reason", "Why, for the audit log and for the log of a release that it ends; at most 1024 bytes.",
            schema: text),
        .flag("supersede", "Take the place of a release that is open."),
    ]

    /// Reading of a gate. `value` and `limit` are in percent, but for the gate `prometheus`.
    private static let gate = JSONValue.objectSchema(
        [
            "name, detail": text, "verdict": .enumSchema(["OK", "TOO_LITTLE", "TRIPPED"]),
            "value, limit, told, untold": number, "count": integer,
        ], required: ["name", "verdict"])

    /// Clients with an id that listen and were told; absent of a release that ended before the daemon began.
    private static let clients = JSONValue.recordSchema(["told, fetched, failed": integer])

    static let releaseSchemas: JSONObject = [
        "Release": .recordSchema(
            [
                "versionNumber, baseVersionNumber, successorVersionNumber": text,
                "state": .enumSchema(Release.State.allCases.map(\.rawValue)), "percent": number,
                "stages": .listSchema(
                    .objectSchema(["percent": number, "reachedAt": moment, "sequence": text], required: ["percent"])),
                "nextStepAt": moment, "policy": anyObject, "events": .listSchema(anyObject), "clients": clients,
                "gates": .listSchema(gate),
            ], optional: ["nextStepAt", "successorVersionNumber", "clients", "gates"])
    ]
}
