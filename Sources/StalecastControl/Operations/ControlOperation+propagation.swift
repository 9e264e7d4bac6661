import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastWire

extension ControlOperations {
    /// Operations that show which clients have a version, and which would hear of the next.
    static func propagation(under base: String) -> [ControlOperation] {
        let path = base + "/remoteConfig/"
        return [
            line(
                "propagation", path + "propagation", "How far a version has come", [version, pretty],
                .json("The counts", .schema("Propagation"))
            ) { call async throws(GoogleError) in try await call.propagation() },
            line(
                "listPropagations", path + "propagation:list", "How far the versions have come, newest first",
                [size(300), pretty], .json("The versions", .schema("Propagations"))
            ) { call async throws(GoogleError) in try await call.propagations() },
            line(
                "listLaggards", path + "propagation:laggards", "Which clients a version is still missing at",
                [
                    version, stage([.fetched, .active]),
                    .query(
                        "groupBy", "Count them by a trait instead.",
                        schema: .enumSchema(ClientGroups.Trait.allCases.map(\.rawValue))),
                    .query("client", "Only the client of this id, whatever it has."), size(1000), pretty,
                ], .json("The clients", .schema("Laggards"))
            ) { call async throws(GoogleError) in try call.laggards() },
            line(
                "watchPropagation", path + "propagation:watch",
                "Server-sent events: `progress` as it changes, then `done` and why", watching,
                APIAnswer("The events", content: [.init("text/event-stream")])
            ) { call async throws(GoogleError) in try await call.watchPropagation() },
            line(
                "audience", path + "audience", "Who would hear of a change now",
                [.query("topic", "Of this topic alone."), pretty], .json("The counts", .schema("Audience"))
            ) { call async throws(GoogleError) in try await call.audience() },
        ]
    }

    private static func line(
        _ id: String, _ path: String, _ summary: String, _ parameters: [APIParameter], _ answer: APIAnswer,
        _ run: @escaping ControlHandler.Run
    ) -> ControlOperation {
        operation(
            id, "GET", path, tag: "Propagation", summary: summary, parameters: parameters, answers: [answer],
            action: .read, about: template, run)
    }

    private static func size(_ most: Int) -> APIParameter {
        APIParameter.query(
            "pageSize", "How many at most.", schema: ["type": "integer", "minimum": 1, "maximum": .int(most)])
    }

    private static func stage(_ stages: [RolloutStatus.Stage]) -> APIParameter {
        APIParameter.query(
            "stage", "Which rung; streams are `sent`, clients that say who they are the others.",
            schema: .enumSchema(stages.map(\.rawValue)))
    }

    private static let watching: [APIParameter] = [
        version, stage(RolloutStatus.Stage.allCases),
        .query("target", "The share to wait for: `0.99` (default) or `99%`."),
        .query(
            "minClients", "Fewer than so many in the audience are NO_AUDIENCE; 0 when absent.",
            schema: ["type": "integer", "minimum": 0, "maximum": 1_000_000_000]),
        .query("timeout", "For example `90s` or `2m`; a minute and the herd window when absent."),
        .flag("follow", "Never done: goes on with newer versions."),
    ]

    // MARK: Schemas

    private static let count: JSONValue = ["type": "integer", "minimum": 0]
    private static let seconds: JSONValue = ["type": ["number", "null"]]
    private static let stageTimes = JSONValue.objectSchema([
        "t50": seconds, "t95": seconds, "t99": seconds, "last": seconds,
    ])
    private static let counts = JSONValue.listSchema(count)

    private static func numbers(_ names: String...) -> JSONValue {
        .objectSchema(names.reduce(into: [:]) { $0[$1] = count }, required: names)
    }

    private static let groups = JSONValue.listSchema(.recordSchema(["key": text, "count": count]))

    private static let herd = JSONValue.objectSchema(
        [
            "windowMs": count, "pacedOverMs": count, "subscribers": count, "configuredBudget": count, "budget": count,
            "fetchesPerStream": ["type": ["number", "null"]],
        ], required: ["windowMs", "budget"])

    private static let streams = numbers(
        "audience", "sent", "received", "receivedUnknown", "backlogged", "left", "joined")
    private static let clients = JSONValue.objectSchema([
        "audience": count, "fetched": count, "active": count, "failed": count, "behind": count, "left": count,
        "lost": count, "unknown": count, "unidentifiedStreams": count,
        "sampling": .objectSchema(["rate": number, "error": number]),
    ])
    private static let times = JSONValue.objectSchema(["sent": stageTimes, "fetched": stageTimes, "active": stageTimes])

    static let propagationSchemas: JSONObject = [
        "Propagation": .objectSchema(
            [
                "versionNumber": text, "previousVersionNumber": text, "announceTime": moment, "ageSeconds": number,
                "state": .enumSchema(["SPREADING", "CONVERGED", "SUPERSEDED", "EXPIRED", "NO_AUDIENCE", "LEFT"]),
                "partial": flag, "counted": flag, "fetchWindowMs": count, "changedKeys": .listSchema(text),
                "changedKeyCount": count, "streams": streams, "clients": clients, "times": times,
                "beforeRestart": .objectSchema(["streams": streams, "clients": clients, "times": times]),
                "curve": .objectSchema([
                    "at": .listSchema(number), "sent": counts, "fetched": counts, "active": counts,
                ]), "fetches": numbers("answers", "errors", "peakPerSecond"), "herd": herd,
                "polls": numbers("answered"),
                "release": .recordSchema(["versionNumber": text, "state": text, "percent": number]),
                "milliseconds": number, "webhooks": numbers("owed", "delivered", "failing"),
            ], required: ["versionNumber", "streams", "clients"]),
        "Propagations": .recordSchema(["propagations": .listSchema(.schema("Propagation"))]),
        "Laggards": .recordSchema(
            [
                "versionNumber": text, "stage": text, "total": count, "groups": groups,
                "laggards": .listSchema(
                    .objectSchema(
                        [
                            "client": text, "address": text, "app": text, "sdk": text, "held": text, "active": text,
                            "behindSince": text, "lastSeen": text, "live": flag,
                            "state": .enumSchema(["current", "behind", "failed", "unknown", "lost"]), "error": text,
                        ], required: ["live", "state"])),
            ], optional: ["groups", "laggards"]),
        "Audience": .objectSchema(
            [
                "streams": count, "polls": count, "webhooks": count, "clients": count, "unidentifiedStreams": count,
                "clientsSeen": count, "fetchWindowMs": count, "thisNode": numbers("streams", "unidentifiedStreams"),
                "topics": .listSchema(.objectSchema(["name": text, "streams": count, "polls": count])),
                "held": .listSchema(.objectSchema(["versionNumber": text, "clients": count])), "apps": groups,
                "sdks": groups,
            ], required: ["streams", "polls", "clients", "topics"]),
    ]
}
