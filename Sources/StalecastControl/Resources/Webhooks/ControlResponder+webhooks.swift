import StalecastWire

extension ControlResponder {
    private static let defaultPageSize = 100
    private static let maxPageSize = 1000

    /// Everything under `webhooks`.
    func webhooks(
        _ project: ProjectID, _ route: WebhookRoute, _ request: ControlRequest, _ body: [UInt8]
    ) async throws(GoogleError) -> Answer {
        let command = try Self.command(route, request, body)
        let result: JSONValue
        do {
            result = try await dependencies.webhooks(project, command)
        } catch {
            throw error.answer
        }
        var answer = Answer(result)
        if let etag = result["etag"]?.string { answer.headers.append(HeaderField("ETag", "\"\(etag)\"")) }
        return answer
    }

    private static func command(
        _ route: WebhookRoute, _ request: ControlRequest, _ body: [UInt8]
    ) throws(GoogleError) -> WebhookCommand {
        switch route {
        case .list: return .list(try page(request.query))
        case .create: return .create(try object(body, isRequired: true))
        case .get(let id): return .get(id)
        case .update(let id):
            let document = try object(body, isRequired: true)
            return .update(id, document, mask: mask(request.query), etag: etag(request, document))
        case .delete(let id): return .delete(id, etag: etag(request, nil))
        case .act(let id, let action): return .act(id, action, try object(body, isRequired: false))
        case .attempts(let id): return .attempts(id, try page(request.query))
        case .deadLetters(let id): return .deadLetters(id, try page(request.query))
        }
    }

    private static func page(_ query: QueryParameters) throws(GoogleError) -> WebhookCommand.Page {
        let size = try query.integer("pageSize") ?? 0
        guard size >= 0 else { throw .invalidField("pageSize", "pageSize must not be negative.") }
        // As Google's APIs do: 0 is the default, too much is cut.
        let chosen = size == 0 ? defaultPageSize : Int(min(size, Int64(maxPageSize)))
        return WebhookCommand.Page(size: chosen, token: query["pageToken"])
    }

    private static func object(_ body: [UInt8], isRequired: Bool) throws(GoogleError) -> JSONValue {
        if body.isEmpty, !isRequired { return .object(JSONObject()) }
        let json = try JSONBody.parse(body)
        guard json.object != nil else { throw .invalidArgument("The body must be a JSON object, not \(json.kind).") }
        return json
    }

    private static func mask(_ query: QueryParameters) -> [String]? {
        query["updateMask"]?.split(separator: ",").map { $0.trimmingBlanks() }.filter { !$0.isEmpty }
    }

    /// `If-Match`, else the member `etag` of what was sent; `*` is any.
    private static func etag(_ request: ControlRequest, _ document: JSONValue?) -> String? {
        var text = (request.headers["if-match"] ?? document?["etag"]?.string ?? "").trimmingBlanks()
        if text.hasPrefix("W/") { text.removeFirst(2) }
        if text.count >= 2, text.first == "\"", text.last == "\"" { text = String(text.dropFirst().dropLast()) }
        return text.isEmpty || text == "*" ? nil : text
    }
}
