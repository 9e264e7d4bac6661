import StalecastHTTP
import StalecastWebhooks
import StalecastWire

/// Registered URLs, as the API has them.
extension Call {
    private var service: WebhookService { control.webhooks }

    func listWebhooks() async throws(GoogleError) -> Answer {
        let project = try project()
        let (size, token) = try page()
        return try await service.answering { () async throws(RegistryProblem) in
            var entries = service.registry.entries(of: project)
            if let token {
                guard let last = PageToken(token) else { throw .unknownPage }
                entries = Array(entries.drop { PageToken($0.webhook) <= last })
            }
            let shown = entries.prefix(size)
            let last = shown.count < entries.count ? shown.last : nil
            return [
                "webhooks": .array(await service.documents(shown)),
                "nextPageToken": last.map { .string(PageToken($0.webhook).text) },
            ]
        }
    }

    func createWebhook() async throws(GoogleError) -> Answer {
        let project = try project()
        let document = try object()
        return try await service.answering { () async throws(RegistryProblem) in
            let entry = try await service.registry.create(document, in: project)
            note.set("webhook", .string(entry.webhook.id.description))
            await service.delivery.settle()
            return await service.document(entry, withSecret: true)
        }
    }

    func getWebhook() async throws(GoogleError) -> Answer {
        let project = try project()
        return try await service.answering { () async throws(RegistryProblem) in
            await service.document(try entry(in: project))
        }
    }

    /// `updateMask` names what to set; without it, what the document has is set.
    func updateWebhook() async throws(GoogleError) -> Answer {
        let project = try project()
        let document = try object()
        let mask = query["updateMask"]?.split(separator: ",").map { String($0.trimmingBlanks()) }
        let etag = try etag(in: document)
        return try await service.answering { () async throws(RegistryProblem) in
            let entry = try await service.registry.update(
                try id(), in: project, document, mask: mask?.filter { !$0.isEmpty }, etag: etag)
            return await service.document(entry, withSecret: entry.hasNewSecret)
        }
    }

    func deleteWebhook() async throws(GoogleError) -> Answer {
        let (project, etag) = (try project(), try etag(in: nil))
        return try await service.answering { () async throws(RegistryProblem) in
            try await service.registry.delete(try id(), in: project, etag: etag)
            return [:]
        }
    }

    // MARK: Lists from the delivery database

    func listDeliveries(_ list: WebhookQuestion.List) async throws(GoogleError) -> Answer {
        let project = try project()
        let (size, token) = try page()
        return try await service.answering { () async throws(RegistryProblem) in
            let id = try entry(in: project).webhook.id
            var place: Int64?
            if let token {
                guard let number = Int64(token), number > 0 else { throw .unknownPage }
                place = number
            }
            return try await service.answer(WebhookQuestion(id, in: project, .list(list, size: size, place: place)))
        }
    }

    // MARK: Verbs

    func act(_ action: WebhookAction) async throws(GoogleError) -> Answer {
        let project = try project()
        let request = body.isEmpty ? [:] : try object()
        return try await service.answering { () async throws(RegistryProblem) in
            let entry = try entry(in: project)
            guard action.isOfDelivery else { return try await action.perform(on: entry, request, service) }
            return try await service.answer(WebhookQuestion(entry.webhook.id, in: project, .action(action, request)))
        }
    }

    // MARK: What requests say

    private func id() throws(RegistryProblem) -> WebhookID {
        guard let id = WebhookID(names["webhook"]) else { throw .notFound(String(names["webhook"].prefix(80))) }
        return id
    }

    private func entry(in project: ProjectID) throws(RegistryProblem) -> RegistryEntry {
        try service.registry.entry(try id(), in: project)
    }

    /// Page as Google's APIs read it: 0 is the default, too much is cut.
    private func page() throws(GoogleError) -> (size: Int, token: String?) {
        let size = try query.integer("pageSize") ?? 0
        guard size >= 0 else { throw .invalidField("pageSize", "pageSize must not be negative.") }
        return (size == 0 ? 100 : Int(min(size, 1000)), query["pageToken"])
    }

    private func object() throws(GoogleError) -> JSONValue {
        let json = try JSONBody.parse(body)
        guard json.object != nil else { throw .invalidArgument("The body must be a JSON object, not \(json.kind).") }
        return json
    }

    /// `If-Match`, else the member `etag` of what was sent; `*` is any.
    private func etag(in document: JSONValue?) throws(GoogleError) -> String? {
        let tag = ETagSpelling.bare(try ifMatch() ?? document?["etag"]?.string ?? "")
        return tag.isEmpty || tag == "*" ? nil : String(tag)
    }
}

extension RegistryProblem {
    fileprivate static var unknownPage: RegistryProblem {
        .invalid(field: "pageToken", "is not one this server gave out")
    }
}

/// The last webhook of a page: webhooks are listed oldest first.
private struct PageToken: Comparable {
    private let createdAt: Timestamp
    private let id: WebhookID

    init(_ webhook: Webhook) {
        createdAt = webhook.createdAt
        id = webhook.id
    }

    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1)
        guard parts.count == 2, let micros = Int64(parts[0]), let id = WebhookID(parts[1]) else { return nil }
        createdAt = Timestamp(microseconds: micros)
        self.id = id
    }

    var text: String { "\(createdAt.microseconds)-\(id)" }

    static func < (a: Self, b: Self) -> Bool { (a.createdAt, a.id) < (b.createdAt, b.id) }
}
