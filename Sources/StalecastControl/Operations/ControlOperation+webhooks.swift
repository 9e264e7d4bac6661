import StalecastHTTP
import StalecastWire

extension ControlOperations {
    private static let collection = "/v1/projects/{project}/webhooks"

    static let webhooks: [ControlOperation] =
        collectionOperations + [read, update, delete] + WebhookAction.allCases.map(action) + lists

    private static let collectionOperations = [
        operation(
            "listWebhooks", "GET", collection, tag: "Webhooks", summary: "The project's webhooks, oldest first",
            parameters: paging, answers: [.json("The webhooks", .schema("Webhooks"))], .call(Call.listWebhooks)),
        operation(
            "createWebhook", "POST", collection, tag: "Webhooks",
            summary: "Registers a URL; the answer is the only one that shows its secret",
            body: APIBody(.schema("WebhookSettings")),
            answers: [.json("The webhook with its secret", .schema("Webhook"), headers: ["ETag"])],
            errors: [400, 404, 429], .call(Call.createWebhook)),
    ]

    private static let read = operation(
        "getWebhook", "GET", one(), tag: "Webhooks", summary: "A webhook, its state and what is owed to it",
        answers: [.json("The webhook", .schema("Webhook"), headers: ["ETag"])], .call(Call.getWebhook))

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
        answers: [.json("The webhook", .schema("Webhook"), headers: ["ETag"])], errors: [400, 404, 409],
        .call(Call.updateWebhook))

    private static let delete = operation(
        "deleteWebhook", "DELETE", one(), tag: "Webhooks", summary: "Removes a webhook and everything owed to it",
        parameters: [ifMatch], answers: [.json("It is gone", anyObject)], errors: [400, 404, 409],
        .call(Call.deleteWebhook))

    private static let lists = [
        operation(
            "listAttempts", "GET", one("/attempts"), tag: "Webhooks", summary: "What was tried, newest first",
            parameters: paging, answers: [.json("The attempts", .schema("WebhookAttempts"))],
            .closure { call async throws(GoogleError) in try await call.listDeliveries(.attempts) }),
        operation(
            "listDeadLetters", "GET", one("/deadLetters"), tag: "Webhooks", summary: "What was given up, oldest first",
            parameters: paging, answers: [.json("The dead letters", .schema("WebhookDeadLetters"))],
            .closure { call async throws(GoogleError) in try await call.listDeliveries(.deadLetters) }),
    ]

    private static func action(_ action: WebhookAction) -> ControlOperation {
        let (summary, request, answer) = action.words
        return operation(
            "\(action.rawValue)Webhook", "POST", one(":\(action.rawValue)"), tag: "Webhooks", summary: summary,
            body: APIBody(request, isRequired: action == .recover), answers: [answer], errors: [400, 404],
            .closure { call async throws(GoogleError) in try await call.act(action) })
    }

    private static func one(_ suffix: String = "") -> String {
        collection + "/{webhook}" + suffix
    }

    private static let ifMatch = APIParameter.header(
        "If-Match", "The etag it was read with; refused with 409 when it has changed since.", schema: etag)
    private static let paging: [APIParameter] = [
        pageSize("At most 1000; 100 when absent.", from: 0),
        .query("pageToken", "The page before's `nextPageToken`."),
    ]
}

extension WebhookAction {
    /// Words, and the forms of the body and of the answer.
    fileprivate var words: (summary: String, request: JSONValue, answer: APIAnswer) {
        let (text, object) = (ControlOperations.text, ControlOperations.anyObject)
        let webhook = APIAnswer.json("The webhook", .schema("Webhook"))
        let deliveries = APIAnswer.json(
            "How many deliveries are owed again", .recordSchema(["deliveries": ControlOperations.integer]))
        return switch self {
        case .pause: ("Sends nothing more until it is resumed; what is owed stays owed", object, webhook)
        case .resume: ("Ends a pause; the newest version goes out at once", object, webhook)
        case .enable: ("Puts a disabled webhook to work again; the newest version goes out at once", object, webhook)
        case .verify: ("Asks the receiver for its consent now", object, webhook)
        case .test:
            (
                "Sends a test message now and waits for the outcome", object,
                .json("How the attempt went", .recordSchema(["attempt": .schema("WebhookAttempt")]))
            )
        case .rotateSecret:
            (
                "Makes a new secret, shown in the answer; the old one goes on signing for a while",
                .objectSchema([
                    "gracePeriod": ["type": "string", "examples": ["86400s"]],
                    "algorithm": .enumSchema(["hmac-sha256", "ed25519"]), "secret": text,
                ]), webhook
            )
        case .redeliver:
            (
                "Sends a version once more; without one, the newest",
                .objectSchema(["namespace": text, "versionNumber": ["type": ["string", "integer"]]]), deliveries
            )
        case .recover:
            (
                "Owes again what was published since a time", .recordSchema(["since": ControlOperations.moment]),
                deliveries
            )
        case .redrive:
            (
                "Takes dead letters up again; without an id, all",
                .objectSchema(["id": ["type": ["string", "null"], "pattern": "^[0-9]{1,18}$"]]), deliveries
            )
        }
    }
}
