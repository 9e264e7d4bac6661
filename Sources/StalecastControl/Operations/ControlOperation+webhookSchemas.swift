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
        "Webhooks": page("webhooks", of: "Webhook"),
        "WebhookAttempt": .objectSchema(
            [
                "kind, messageId, namespace, versionNumber, outcome, problem, response": text,
                "attempt": ["type": "integer", "minimum": 1], "startTime, nextAttemptTime": moment, "status": integer,
                "phasesMs": ["type": "object", "additionalProperties": number],
            ], required: ["kind", "attempt", "startTime", "outcome", "phasesMs"]),
        "WebhookAttempts": page("attempts", of: "WebhookAttempt"),
        "WebhookDeadLetter": .recordSchema(
            ["id, namespace, versionNumber, reason": text, "attempts, lastStatus": integer, "moveTime": moment],
            optional: ["lastStatus"]),
        "WebhookDeadLetters": page("deadLetters", of: "WebhookDeadLetter"),
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
            "maxPerSecond": ["type": "number", "minimum": .double(0.001), "maximum": 1000],
            "timeout, minInterval": seconds,
        ]),
        "tls": .objectSchema(["caFile, certificateFile, keyFile": text]),
        "addressProfile": .enumSchema(["public", "internal"]),
        "fcm": .objectSchema(["serviceAccountFile, tokenUrl": text]),
        "verification": .objectSchema(["method": .enumSchema(["none", "challenge", "cloudevents"])]),
        "description": ["type": "string", "maxLength": 256],
        "paused": flag,
        "signing": .objectSchema(["algorithm": .enumSchema(["hmac-sha256", "ed25519"]), "secret": text]),
    ]

    /// Settings with the members that the daemon adds.
    private static let webhookFacts: JSONObject = {
        let added: JSONObject = [
            "name, id, configuredAs, etag": text, "origin": .enumSchema(["api", "configuration"]),
            "createTime, updateTime": moment,
            // `secret` is in the answer that made it alone: of a creation, a rotation, or an update to a format that signs.
            "signing": .objectSchema(["algorithm, publicKey, secret": text, "keys": .listSchema(anyObject)]),
            "state": .objectSchema(
                [
                    "name": .enumSchema(["active", "unverified", "paused", "failing", "disabled"]), "since": moment,
                    "reason": text,
                ], required: ["name"]),
            "delivery": .objectSchema([
                "consecutiveFailures": integer, "nextAttemptTime": moment,
                "lastFailure": .objectSchema(
                    ["time": moment, "outcome, problem, response": text, "status": integer],
                    required: ["time", "outcome"]),
                "scopes": .listSchema(
                    .objectSchema([
                        "namespace, acknowledgedVersion, currentVersion": text, "lag, owed": integer, "inFlight": flag,
                    ])),
            ]),
            // In a cluster: the other node that delivers, or why its status is not known; there is no `delivery` then.
            "deliveryNode, deliveryProblem": text,
        ]
        return added.members.reduce(into: webhookSettings) { $0[$1.key] = $1.value }
    }()
}
