import ArgumentParser
import StalecastWire

/// Options for the webhooks' project on a daemon.
struct WebhookOptions: ParsableArguments, ControlOptions {
    @OptionGroup var project: ProjectOptions

    @OptionGroup var connection: ConnectionOptions

    func api() throws(CommandFailure) -> WebhookAPI {
        WebhookAPI(client: try client(), project: try project.id())
    }

    /// Does `verb` to a webhook and shows it.
    func change(_ target: WebhookTarget, _ verb: String, _ done: String) async throws(CommandFailure) {
        let webhook = try await api().act(target.id, verb)
        let name = webhook["state"]?["name"]?.string
        let state = name == done ? "" : ": it is \(WebhookStateText(webhook["state"]).text(output.palette))"
        try output.show(webhook, ["\(done) \(target.id)\(state)"])
    }

    /// Does `verb` to a webhook and says how many deliveries are owed again.
    func owe(_ target: WebhookTarget, _ verb: String, _ request: JSONValue) async throws(CommandFailure) {
        let answer = try await api().act(target.id, verb, request)
        let count = answer["deliveries"]?.int64 ?? 0
        let sentence = "\(count) \(count == 1 ? "delivery is" : "deliveries are") owed again to \(target.id)"
        try output.show(answer, [sentence])
    }
}

struct LimitOption: ParsableArguments {
    @Option(help: "How many to list, 1 or more.")
    var limit = 20

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is 1 or more") }
    }
}

struct WebhookTarget: ParsableArguments {
    @Argument(help: "The webhook's id, wh_ and 20 characters; see `stalecast webhooks list`.", completion: .webhooks)
    var id: String

    func validate() throws {
        let isSpelled = id.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
        if !isSpelled || id.isEmpty {
            throw ValidationError("\"\(id)\" is no webhook's id, such as wh_4n3xqv7pqk2yb6l5m7ta")
        }
    }
}

/// Options for the secret of a webhook: where one comes from, and where a new one goes.
struct WebhookSecretOptions: ParsableArguments {
    @Option(help: .value("file", "Use the secret in this file (whsec_… or whsk_…) instead."), completion: .file())
    var secretFile: String?

    @Option(help: .value("file", "Write the secret into this file, which must not exist."), completion: .file())
    var saveSecret: String?

    func given() throws(CommandFailure) -> String? {
        guard let secretFile else { return nil }
        return try SecretFile.read(secretFile)
    }

    /// Makes a webhook or a secret with `make`, and shows the webhook.
    func show(
        _ act: String, _ output: Output, _ make: () async throws(CommandFailure) -> JSONValue
    ) async throws(CommandFailure) {
        let webhook = try await SecretFile.claiming(saveSecret, make)
        try WebhookReport(webhook, savedTo: saveSecret, isSecretKnown: secretFile != nil).write(act, output)
    }
}

/// Control's `webhooks` resource of one project.
struct WebhookAPI: Sendable {
    let client: ControlClient
    let project: ProjectID

    /// The daemon may wait for a receiver, whose time limit is at most a minute.
    private static let patience: Duration = .seconds(90)
    /// Largest page of a list that is asked for.
    private static let maxPageSize = 1000

    private var collection: String { "/v1/projects/\(project)/webhooks" }

    func create(_ settings: JSONValue) async throws(CommandFailure) -> JSONValue {
        try await client.send("POST", collection, body: settings, changes: true).json()
    }

    func get(_ id: String) async throws(CommandFailure) -> JSONValue {
        try await client.send("GET", "\(collection)/\(id)").json()
    }

    /// - Parameter mask: paths to set; those the settings lack go back to their defaults.
    func update(_ id: String, _ settings: JSONValue, mask: [String]) async throws(CommandFailure) -> JSONValue {
        let query: RequestQuery = ["updateMask": mask.joined(separator: ",")]
        return try await client.send("PATCH", "\(collection)/\(id)", query: query, body: settings, changes: true).json()
    }

    func delete(_ id: String) async throws(CommandFailure) {
        _ = try await client.send("DELETE", "\(collection)/\(id)", changes: true)
    }

    /// `POST …/<id>:<verb>`.
    func act(_ id: String, _ verb: String, _ request: JSONValue = [:]) async throws(CommandFailure) -> JSONValue {
        try await client.send(
            "POST", "\(collection)/\(id):\(verb)", body: request, changes: true, patience: Self.patience
        ).json()
    }

    /// Every webhook, oldest first.
    func list() async throws(CommandFailure) -> [JSONValue] {
        try await client.list("webhooks", collection, pageSize: Self.maxPageSize).items
    }

    /// `attempts` or `deadLetters` of a webhook, newest first, at most `limit`.
    func list(
        _ member: String, of id: String, limit: Int
    ) async throws(CommandFailure) -> (items: [JSONValue], hasMore: Bool) {
        try await client.list(member, "\(collection)/\(id)/\(member)", limit: limit, pageSize: Self.maxPageSize)
    }
}
