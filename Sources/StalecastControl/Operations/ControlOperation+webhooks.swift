import StalecastHTTP
import StalecastWire

extension ControlOperations {
    private static let collection = "/v1/projects/{project}/webhooks"

    /// Webhooks.
    static let webhooks: [ControlOperation] =
        collectionOperations + [read, update, delete] + WebhookAction.allCases.map(action) + lists

    private static let collectionOperations = [
        operation(
            "listWebhooks", "GET", collection, tag: "Webhooks",
            summary: "The project's webhooks, oldest first", parameters: paging,
            answers: [.json("The webhooks", .schema("Webhooks"))]
        ) { call async throws(GoogleError) in try await call.listWebhooks() },
        operation(
            "createWebhook", "POST", collection, tag: "Webhooks",
            summary: "Registers a URL; the answer is the only one that shows its secret",
            body: APIBody(.schema("WebhookSettings")),
            answers: [.json("The webhook with its secret", .schema("Webhook"), headers: ["ETag"])],
            errors: [400, 404, 429]
        ) { call async throws(GoogleError) in try await call.createWebhook() },
    ]

    private static let read = operation(
        "getWebhook", "GET", one(), tag: "Webhooks", summary: "A webhook, its state and what is owed to it",
        answers: [.json("The webhook", .schema("Webhook"), headers: ["ETag"])]
    ) { call async throws(GoogleError) in try await call.getWebhook() }

    private static let update = operation(
        "updateWebhook", "PATCH", one(), tag: "Webhooks",
        summary:
            "Changes settings. A secret that this makes is shown by this answer alone; a URL of another scheme, host "
            + "or port needs hidden header values given again",
        parameters: [
            .query(
                "updateMask",
                "Fields to set, separated by commas, `limits.timeout` for example; one that the body lacks goes back "
                    + "to its default. Without it, what the body has is set."), ifMatch,
        ], body: APIBody(.schema("WebhookSettings")),
        answers: [.json("The webhook", .schema("Webhook"), headers: ["ETag"])], errors: [400, 404, 409]
    ) { call async throws(GoogleError) in try await call.updateWebhook() }

    private static let delete = operation(
        "deleteWebhook", "DELETE", one(), tag: "Webhooks", summary: "Removes a webhook and everything owed to it",
        parameters: [ifMatch], answers: [.json("It is gone", anyObject)], errors: [400, 404, 409]
    ) { call async throws(GoogleError) in try await call.deleteWebhook() }

    private static let lists = [
        operation(
            "listAttempts", "GET", one("/attempts"), tag: "Webhooks", summary: "What was tried, newest first",
            parameters: paging, answers: [.json("The attempts", .schema("WebhookAttempts"))]
        ) { call async throws(GoogleError) in try await call.listDeliveries(.attempts) },
        operation(
            "listDeadLetters", "GET", one("/deadLetters"), tag: "Webhooks", summary: "What was given up, oldest first",
            parameters: paging, answers: [.json("The dead letters", .schema("WebhookDeadLetters"))]
        ) { call async throws(GoogleError) in try await call.listDeliveries(.deadLetters) },
    ]

    private static func action(_ action: WebhookAction) -> ControlOperation {
        operation(
            "\(action.rawValue)Webhook", "POST", one(":\(action.rawValue)"), tag: "Webhooks", summary: action.summary,
            body: APIBody(action.request, isRequired: action.needsBody),
            answers: [.json(action.answer, action.answerSchema)], errors: [400, 404]
        ) { call async throws(GoogleError) in try await call.act(action) }
    }

    private static func one(_ suffix: String = "") -> String {
        collection + "/{webhook}" + suffix
    }

    private static let ifMatch = APIParameter.header(
        "If-Match", "The etag it was read with; refused with 409 when it has changed since.", schema: etag)
    private static let paging: [APIParameter] = [
        .query(
            "pageSize", "At most 1000; 100 when absent.",
            schema: ["type": "integer", "minimum": 0, "maximum": .int(Int64.max)]),
        .query("pageToken", "The page before's `nextPageToken`."),
    ]
}

extension WebhookAction {
    fileprivate var summary: String {
        switch self {
        case .pause: "Sends nothing more until it is resumed; what is owed stays owed"
        case .resume: "Ends a pause; the newest version goes out at once"
        case .enable: "Puts a disabled webhook to work again; the newest version goes out at once"
        case .verify: "Asks the receiver for its consent now"
        case .test: "Sends a test message now and waits for the outcome"
        case .rotateSecret: "Makes a new secret, shown in the answer; the old one goes on signing for a while"
        case .redeliver: "Sends a version once more; without one, the newest"
        case .recover: "Owes again what was published since a time"
        case .redrive: "Takes dead letters up again; without an id, all"
        }
    }

    fileprivate var needsBody: Bool { self == .recover }

    fileprivate var request: JSONValue {
        switch self {
        case .rotateSecret:
            .objectSchema([
                "gracePeriod": ["type": "string", "examples": ["86400s"]],
                "algorithm": .enumSchema(["hmac-sha256", "ed25519"]), "secret": ["type": "string"],
            ])
        case .redeliver:
            .objectSchema(["namespace": ["type": "string"], "versionNumber": ["type": ["string", "integer"]]])
        case .recover: .recordSchema(["since": ["type": "string", "format": "date-time"]])
        case .redrive: .objectSchema(["id": ["type": ["string", "null"], "pattern": "^[0-9]{1,18}$"]])
        case .pause, .resume, .enable, .verify, .test: ["type": "object"]
        }
    }

    fileprivate var answer: String {
        switch self {
        case .test: "How the attempt went"
        case .redeliver, .recover, .redrive: "How many deliveries are owed again"
        default: "The webhook"
        }
    }

    fileprivate var answerSchema: JSONValue {
        switch self {
        case .test: .recordSchema(["attempt": .schema("WebhookAttempt")])
        case .redeliver, .recover, .redrive:
            .recordSchema(["deliveries": ["type": "integer"]])
        default: .schema("Webhook")
        }
    }
}
