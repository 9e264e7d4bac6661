import StalecastLoad
import StalecastWire

/// Publishes the versions that a load waits for, and puts back what was there.
struct LoadPublisher: Sendable {
    /// The parameter whose value changes with every round.
    static let parameter = "stalecast_load"

    let api: TemplateAPI
    /// The template found at the start.
    let original: ServedTemplate
    /// Control's address; nil behind TLS, where the HTTP library must do.
    private let target: LoadTarget?

    /// Reads the template found at the start.
    /// - Throws: ``CommandFailure``, for example when the daemon is not there or refuses the token.
    init(_ api: TemplateAPI) async throws(CommandFailure) {
        self.api = api
        original = try await api.get()
        target = api.client.address.url.hasPrefix("https:") ? nil : try api.client.address.loadTarget()
    }

    /// Refuses to publish to subscribers and webhooks that are not the load's own, unless that was permitted.
    ///
    /// - Parameter isPermitted: `--yes`.
    func beSureNobodyListens(isPermitted: Bool) async throws(CommandFailure) {
        if isPermitted { return }
        let client = api.client
        let topics =
            try await client.send("GET", "/v1/projects/\(api.scope.project)/topics").json()["topics"]?.array ?? []
        let heard = topics.filter { topic in
            topic.items("scopes").contains { TopicsReading.scope($0) == api.scope.description }
        }
        let subscribers = heard.reduce(0) { sum, topic in
            sum + (topic["subscribers"]?["sse"]?.int64 ?? 0) + (topic["subscribers"]?["poll"]?.int64 ?? 0)
        }
        let webhooks = try await WebhookAPI(client: client, project: api.scope.project).list()
            .filter { $0["description"]?.string != WebhookRegistrations.description }
        let apps = try await api.read("/audience")["clientsSeen"]?.int64 ?? 0
        guard subscribers > 0 || !webhooks.isEmpty || apps > 0 else { return }
        throw CommandFailure(
            .refused,
            "\(Self.listeners(subscribers, webhooks.count, apps)) \(api.scope); this load would publish to them again "
                + "and again",
            advice: "--project and --namespace name a scope of the load's own; --yes publishes to them all the same.")
    }

    /// Phrase, for example `1 subscriber and 2 webhooks listen to`. Apps that only fetch are known for 25 h.
    private static func listeners(_ subscribers: Int64, _ webhooks: Int, _ apps: Int64) -> String {
        let counts = [(subscribers, "subscriber"), (Int64(webhooks), "webhook"), (apps, "app")].filter { $0.0 > 0 }
        let parts = counts.map { "\($0) \($1)\($0 == 1 ? "" : "s")" }
        return parts.joined(separator: " and ")
            + (counts.reduce(0) { $0 + $1.0 } == 1 ? " listens to or fetches" : " listen to or fetch")
    }

    /// Gets ready to publish `latest` with another value of ``parameter``; what it returns does it. That throws a
    /// ``CommandFailure`` `versionMismatch` when another client published since `latest`.
    func prepare(
        _ value: String, over latest: ServedTemplate
    ) throws(CommandFailure) -> @Sendable () async throws -> ServedTemplate {
        try prepare(template: body(value), over: latest)
    }

    /// Gets ready to publish `template` over `latest`, likewise.
    func prepare(
        template: JSONValue, over latest: ServedTemplate
    ) throws(CommandFailure) -> @Sendable () async throws -> ServedTemplate {
        let (api, body) = (api, template)
        guard let target else {
            return { try await api.put(body, ifMatch: latest.etag, validateOnly: false) }
        }
        let connection = try loading(try PublishConnection(target))
        let request = request(body.encoded(), target, ifMatch: latest.etag)
        return {
            let answer = try await connection.exchange(request)
            let received = HTTPAnswer(
                head: HTTPAnswer.Head(status: answer.status, fields: answer.etag.map { ["etag": $0] } ?? [:]),
                body: answer.body)
            guard answer.status == 200 else { throw ServerRefusal(received, token: api.client.token).failure }
            return try ServedTemplate(received)
        }
    }

    private func request(_ body: [UInt8], _ target: LoadTarget, ifMatch etag: String) -> [UInt8] {
        let path = "/v1/projects/\(api.scope.project)/namespaces/\(api.scope.namespace)/remoteConfig"
        let head = [
            "PUT \(target.basePath)\(path) HTTP/1.1", "Host: \(target.authority)", "Connection: close",
            "Authorization: Bearer \(api.client.token.secret)", "If-Match: \(etag)",
            "Content-Type: application/json; charset=utf-8", "Content-Length: \(body.count)", "", "",
        ]
        return Array(head.joined(separator: "\r\n").utf8) + body
    }

    private func body(_ value: String) -> JSONValue {
        var template = original.json.object ?? [:]
        template["version"] = ["description": .string("load, \(value)")]
        var parameters = template["parameters"]?.object ?? [:]
        parameters[Self.parameter] = ["defaultValue": ["value": .string(value)], "description": "stalecast load"]
        template["parameters"] = .object(parameters)
        return .object(template)
    }

    /// Makes the original content current again: by a rollback, or by an empty template when there was no version.
    ///
    /// Does nothing when another client has published after `latest`: its version must not be lost.
    func restore(after latest: ServedTemplate) async throws(CommandFailure) -> LoadRestoration {
        guard latest.version > original.version else { return .notNeeded }
        guard try await api.get().version == latest.version else { return .leftAlone }
        if original.version > 0 {
            return .rolledBack(
                to: original.version, as: try await api.rollback(to: original.version, ifMatch: nil).version)
        }
        let empty: JSONValue = ["conditions": [], "parameters": [:], "parameterGroups": [:]]
        return .emptied(as: try await api.put(empty, ifMatch: latest.etag, validateOnly: false).version)
    }

    /// Restores the template as ``restore(after:)`` does, if that is wanted; a failure is part of the report.
    func restoration(after latest: ServedTemplate, isWanted: Bool) async -> LoadRestoration {
        guard isWanted else { return .notWanted }
        do { return try await restore(after: latest) } catch { return .failed(error) }
    }
}

/// Result for the template after the load.
enum LoadRestoration: Sendable {
    /// Nothing was published.
    case notNeeded
    /// `--no-restore`: the last round's version stays.
    case notWanted
    /// Another client published meanwhile; its version stays.
    case leftAlone
    case rolledBack(to: Int64, as: Int64)
    case emptied(as: Int64)
    case failed(CommandFailure)

    var sentence: String {
        switch self {
        case .notNeeded: "nothing was published"
        case .notWanted: "the last round's version stays (--no-restore)"
        case .leftAlone: "another version was published meanwhile: it stays, nothing was rolled back"
        case .rolledBack(let source, let version): "rolled back to version \(source), which is now version \(version)"
        case .emptied(let version): "there was no version before: an empty template is now version \(version)"
        case .failed(let failure): "not restored: \(failure.sentence)"
        }
    }
}
