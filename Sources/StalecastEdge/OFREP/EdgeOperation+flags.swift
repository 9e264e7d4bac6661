import StalecastHTTP
import StalecastWire

extension EdgeOperations {
    /// OpenFeature's remote evaluation protocol 0.3: under a scope, and at the root for a daemon with one project.
    static let flags: [EdgeOperation] = [("", "/v1/projects/{project}/namespaces/{namespace}"), ("Only", "")].flatMap {
        name, base in
        let path = base + ServedTemplates.flagsPath
        return [all("evaluate\(name)Flags", path), one("evaluate\(name)Flag", path + "/{key}")]
    }

    private static func all(_ id: String, _ path: String) -> EdgeOperation {
        evaluation(
            id, path, "All flags for one context",
            parameters: [
                .header("If-None-Match", "The ETag of what the provider holds."),
                .query(
                    "flagConfigEtag",
                    "The `etag` of the message that made the provider ask: the answer is not older, or 503."),
                .query("flagConfigLastModified", "Of the same message; nothing depends on it here."),
            ],
            answers: [
                .json("The flags", .schema("Flags"), headers: ["ETag"], mayHave: unverified),
                APIAnswer("Nothing changed", status: 304, headers: ["ETag"]),
            ])
    }

    private static func one(_ id: String, _ path: String) -> EdgeOperation {
        evaluation(
            id, path, "One flag for one context", parameters: [],
            answers: [.json("The flag", .schema("Flag"), mayHave: unverified)])
    }

    private static func evaluation(
        _ id: String, _ path: String, _ summary: String, parameters: [APIParameter], answers: [APIAnswer]
    ) -> EdgeOperation {
        // Edge's own refusals, before a flag is looked for, have the other error envelope.
        let later = ["Retry-After": "Seconds after which to try again."]
        let refusals = [400, 401, 403, 404, 413, 429, 503].map { status in
            APIAnswer.json(
                "Refused; errorDetails says what to do", ["anyOf": [.schema("FlagError"), .schema("Error")]],
                status: status, mayHave: [429, 503].contains(status) ? later : [:])
        }
        return operation(
            id, "POST", path, tag: "OFREP", summary: summary, parameters: [key] + parameters,
            body: APIBody(.schema("FlagRequest")), answers: answers + refusals, errors: []
        ) { router, request, names in router.flags(names, request) }
    }

    static let flagSchemas: JSONObject = [
        "FlagRequest": .objectSchema([
            "context": [
                "type": "object", "properties": ["targetingKey": ["type": "string"]],
                "maxProperties": .int(FetchRequest.maxAttributes), "additionalProperties": true,
            ]
        ]),
        "Flag": .recordSchema(
            [
                "key": ["type": "string"], "value": JSONValue.object(JSONObject()),
                "reason": .enumSchema(["STATIC", "TARGETING_MATCH", "SPLIT", "DEFAULT"]), "variant": ["type": "string"],
                "metadata": flagMetadata,
            ], optional: ["value", "metadata"]),
        "FlagError": .recordSchema(
            [
                "key": ["type": "string"], "errorDetails": ["type": "string"],
                "errorCode": .enumSchema(FlagRefusal.Code.allCases.map(\.rawValue)),
            ], optional: ["key"]),
        "Flags": .recordSchema(
            [
                "flags": .listSchema(["anyOf": [.schema("Flag"), .schema("FlagError")]]), "metadata": flagMetadata,
                "eventStreams": .listSchema(
                    .recordSchema([
                        "type": ["const": "sse"], "endpoint": .recordSchema(["requestUri": ["type": "string"]]),
                    ])),
            ], optional: ["eventStreams"]),
    ]

    private static let flagMetadata: JSONValue = .recordSchema([
        "templateVersion": ["type": "string", "pattern": "^[0-9]+$"]
    ])
}
