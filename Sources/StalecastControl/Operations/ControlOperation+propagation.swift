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
                .json("The counts", .schema("Propagation")), .call(Call.propagation)),
            line(
                "listPropagations", path + "propagation:list", "How far the versions have come, newest first",
                [size(300), pretty], .json("The versions", .schema("Propagations")), .call(Call.propagations)),
            line(
                "listLaggards", path + "propagation:laggards", "Which clients a version is still missing at",
                [
                    version, stage([.fetched, .active]),
                    .query(
                        "groupBy", "Count them by a trait instead.",
                        schema: .enumSchema(ClientGroups.Trait.allCases.map(\.rawValue))),
                    .query("client", "Only the client of this id, whatever it has."), size(1000), pretty,
                ], .json("The clients", .schema("Laggards")), .call(Call.laggards)),
            line(
                "watchPropagation", path + "propagation:watch",
                "Server-sent events: `progress` as it changes, then `done` and why", watching,
                APIAnswer("The events", content: [.init("text/event-stream")]), .call(Call.watchPropagation)),
            line(
                "audience", path + "audience", "Who would hear of a change now",
                [.query("topic", "Of this topic alone."), pretty], .json("The counts", .schema("Audience")),
                .call(Call.audience)),
        ]
    }

    private static func line(
        _ id: String, _ path: String, _ summary: String, _ parameters: [APIParameter], _ answer: APIAnswer,
        _ run: ControlHandler.Run
    ) -> ControlOperation {
        operation(
            id, "GET", path, tag: "Propagation", summary: summary, parameters: parameters, answers: [answer],
            action: .read, about: template, run)
    }

    private static func size(_ most: Int64) -> APIParameter { pageSize("How many at most.", to: most) }

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
    private static let stageTimes = JSONValue.objectSchema(["t50, t95, t99, last": seconds])
    private static let counts = JSONValue.listSchema(count)

    private static let groups = JSONValue.listSchema(.recordSchema(["key": text, "count": count]))

    private static let herd = JSONValue.objectSchema(
        [
            "windowMs, pacedOverMs, subscribers, configuredBudget, budget": count,
            "fetchesPerStream": ["type": ["number", "null"]],
        ], required: ["windowMs", "budget"])

    private static let streams = JSONValue.recordSchema([
        "audience, sent, received, receivedUnknown, backlogged, left, joined": count
    ])
    private static let clients = JSONValue.objectSchema([
        "audience, fetched, active, failed, behind, left, lost, unknown, unidentifiedStreams": count,
        "sampling": .objectSchema(["rate, error": number]),
    ])
    private static let times = JSONValue.objectSchema(["sent, fetched, active": stageTimes])

    static let propagationSchemas: JSONObject = [
        "Propagation": .objectSchema(
            [
                "versionNumber, previousVersionNumber": text, "announceTime": moment,
                "ageSeconds, milliseconds": number,
                "state": .enumSchema(["SPREADING", "CONVERGED", "SUPERSEDED", "EXPIRED", "NO_AUDIENCE", "LEFT"]),
                "partial, counted": flag, "fetchWindowMs, changedKeyCount": count, "changedKeys": .listSchema(text),
                "streams": streams, "clients": clients, "times": times,
                "beforeRestart": .objectSchema(["streams": streams, "clients": clients, "times": times]),
                "curve": .objectSchema(["at": .listSchema(number), "sent, fetched, active": counts]),
                "fetches": .recordSchema(["answers, errors, peakPerSecond": count]), "herd": herd,
                "polls": .recordSchema(["answered": count]),
                "release": .recordSchema(["versionNumber, state": text, "percent": number]),
                "webhooks": .recordSchema(["owed, delivered, failing": count]),
            ], required: ["versionNumber", "streams", "clients"]),
        "Propagations": .recordSchema(["propagations": .listSchema(.schema("Propagation"))]),
        "Laggards": .recordSchema(
            [
                "versionNumber, stage": text, "total": count, "groups": groups,
                "laggards": .listSchema(
                    .objectSchema(
                        [
                            "client, address, app, sdk, held, active, behindSince, lastSeen, error": text, "live": flag,
                            "state": .enumSchema(["current", "behind", "failed", "unknown", "lost"]),
                        ], required: ["live", "state"])),
            ], optional: ["groups", "laggards"]),
        "Audience": .objectSchema(
            [
                "streams, polls, webhooks, clients, unidentifiedStreams, clientsSeen, fetchWindowMs": count,
                "thisNode": .recordSchema(["streams, unidentifiedStreams": count]),
                "topics": .listSchema(.objectSchema(["name": text, "streams, polls": count])),
                "held": .listSchema(.objectSchema(["versionNumber": text, "clients": count])), "apps": groups,
                "sdks": groups,
            ], required: ["streams", "polls", "clients", "topics"]),
    ]
}
