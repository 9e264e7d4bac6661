import StalecastHTTP
import StalecastWire

extension ControlOperations {
    static let webhookSchemas: JSONObject = [
        "WebhookSettings": .objectSchema(webhookSettings),
        "Webhook": .objectSchema(
            webhookFacts,
            required: [
                "name", "id", "url", "topics", "format", "mode", "paused", "origin", "createTime", "updateTime", "etag",
                "state",
            ]),
        "Webhooks": .objectSchema(
            ["webhooks": .listSchema(.schema("Webhook")), "nextPageToken": text], required: ["webhooks"]),
        "WebhookAttempt": .objectSchema(
            [
                "kind, messageId, namespace, versionNumber, outcome, problem, response": text,
                "attempt": ["type": "integer", "minimum": 1], "startTime, nextAttemptTime": moment, "status": integer,
                "phasesMs": ["type": "object", "additionalProperties": number],
            ], required: ["kind", "attempt", "startTime", "outcome", "phasesMs"]),
        "WebhookAttempts": .objectSchema(
            ["attempts": .listSchema(.schema("WebhookAttempt")), "nextPageToken": text], required: ["attempts"]),
        "WebhookDeadLetter": .recordSchema(
            ["id, namespace, versionNumber, reason": text, "attempts, lastStatus": integer, "moveTime": moment],
            optional: ["lastStatus"]),
        "WebhookDeadLetters": .objectSchema(
            ["deadLetters": .listSchema(.schema("WebhookDeadLetter")), "nextPageToken": text], required: ["deadLetters"]
        ),
    ]

    private static let seconds: JSONValue = ["type": "string", "examples": ["15s"]]

    /// Settings that an owner decides.
    private static let webhookSettings: JSONObject = [
        "url": ["type": "string", "examples": ["https://example.com/hook"]],
        "topics": .listSchema(["type": "string", "examples": ["PUSH_RC"]]),
        "format": .enumSchema(["standard", "cloudevents-binary", "cloudevents-structured", "fcm"]),
        "mode": .enumSchema(["latest", "all", "fifo", "fifo-advance"]),
        "headers": ["type": "object", "additionalProperties": text],
        "limits": .objectSchema([
            "maxPerSecond": ["type": "number", "minimum": .double(0.001), "maximum": 1000], "timeout": seconds,
            "minInterval": seconds,
        ]),
        "tls": .objectSchema(["caFile": text, "certificateFile": text, "keyFile": text]),
        "addressProfile": .enumSchema(["public", "internal"]),
        "fcm": .objectSchema(["serviceAccountFile": text, "tokenUrl": text]),
        "verification": .objectSchema(["method": .enumSchema(["none", "challenge", "cloudevents"])]),
        "description": ["type": "string", "maxLength": 256], "paused": flag,
        "signing": .objectSchema(["algorithm": .enumSchema(["hmac-sha256", "ed25519"]), "secret": text]),
    ]

    /// Settings with the members that the daemon adds.
    private static let webhookFacts: JSONObject = {
        var object = webhookSettings
        for name in ["name", "id", "configuredAs", "etag"] { object[name] = text }
        object["origin"] = .enumSchema(["api", "configuration"])
        object["createTime"] = moment
        object["updateTime"] = moment
        // `secret` is in the answer that made it alone: of a creation, a rotation, or an update to a format that signs.
        object["signing"] = .objectSchema([
            "algorithm": text, "publicKey": text, "secret": text, "keys": .listSchema(anyObject),
        ])
        object["state"] = .objectSchema(
            [
                "name": .enumSchema(["active", "unverified", "paused", "failing", "disabled"]), "since": moment,
                "reason": text,
            ], required: ["name"])
        object["delivery"] = .objectSchema([
            "consecutiveFailures": integer, "nextAttemptTime": moment,
            "lastFailure": .objectSchema(
                ["time": moment, "outcome": text, "status": integer, "problem": text, "response": text],
                required: ["time", "outcome"]),
            "scopes": .listSchema(
                .objectSchema([
                    "namespace": text, "acknowledgedVersion": text, "currentVersion": text, "lag": integer,
                    "owed": integer, "inFlight": flag,
                ])),
        ])
        // In a cluster: the other node that delivers, or why its status is not known; there is no `delivery` then.
        object["deliveryNode"] = text
        object["deliveryProblem"] = text
        return object
    }()
}
