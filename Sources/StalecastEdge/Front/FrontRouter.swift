import NIOHTTP1
import StalecastHub
import StalecastWire

/// Which answer a request gets; pure, on a board as of now.
struct FrontRouter {
    let board: TopicBoard
    let settings: EdgeSettings

    func route(_ request: FrontRequest) -> FrontOutcome {
        if let violation = request.violation { return .respond(.refused(violation)) }
        guard let methods = Self.methods[String(request.path)] else {
            return .respond(.refused(Refusal(status: 404, sentence: "no such path")))
        }
        if request.head.method == .OPTIONS { return .respond(preflight(request, methods)) }
        guard methods.contains(request.head.method) else {
            let allow = methods.map(\.rawValue).joined(separator: ", ")
            var response = FrontResponse.refused(Refusal(status: 405, sentence: "use one of: \(allow)"))
            response.fields = "Allow: \(allow), OPTIONS\r\n"
            return .respond(response)
        }
        do throws(Refusal) { return try serve(request) } catch { return .respond(.refused(error)) }
    }

    private static let methods: [String: [HTTPMethod]] = [
        "/healthz": [.GET, .HEAD], "/v1/state": [.GET, .HEAD], "/v1/events": [.GET, .HEAD], "/v1/poll": [.GET, .HEAD],
    ]

    private func serve(_ request: FrontRequest) throws(Refusal) -> FrontOutcome {
        switch request.path {
        case "/healthz": return .respond(FrontResponse(type: "text/plain", body: Array("ok\n".utf8)))
        case "/v1/state": return .respond(state(of: try subscription(.poll, request).topics))
        case "/v1/events": return .subscribe(try subscription(.events, request))
        default: return .subscribe(try subscription(.poll, request))
        }
    }

    private func subscription(_ kind: StreamRequest.Kind, _ request: FrontRequest) throws(Refusal) -> StreamRequest {
        let subscription = try StreamRequest(
            kind: kind, query: Array(request.query.utf8), headers: request.streamHeaders,
            maxTopics: settings.maxTopicsPerStream)
        for name in subscription.topics where board.index(of: name) == nil { throw .unknownTopic }
        return subscription
    }

    /// What is current: the cursor, and for each scope of the topics the version each topic announced last.
    private func state(of names: [TopicName]) -> FrontResponse {
        var topics: [JSONValue] = []
        for name in names {
            guard let index = board.index(of: name) else { continue }
            for line in board[index].lines {
                var entry: JSONObject = [
                    "topic": .string(name.description), "project": .string(line.scope.project.description),
                    "namespace": .string(line.scope.namespace.description),
                    "latestTemplateVersionNumber": .string(String(line.latest?.version ?? 0)),
                ]
                if let latest = line.latest {
                    entry["etag"] = .string(latest.etag)
                    entry["updateTime"] = .string(latest.metadata.updateTime.description)
                }
                topics.append(.object(entry))
            }
        }
        let state: JSONValue = ["cursor": .string(board.head.description), "state": .array(topics)]
        return FrontResponse(fields: PollDialect.etagField(board.head), body: state.encoded() + [0x0A])
    }

    private func preflight(_ request: FrontRequest, _ methods: [HTTPMethod]) -> FrontResponse {
        let allow = (methods + [.OPTIONS]).map(\.rawValue).joined(separator: ", ")
        var fields = "Allow: \(allow)\r\n"
        if !settings.allowedOrigins.isEmpty {
            fields += "Access-Control-Allow-Methods: \(allow)\r\n"
            fields += "Access-Control-Allow-Headers: last-event-id, cache-control, authorization, if-none-match\r\n"
            fields += "Access-Control-Max-Age: 3600\r\n"
        }
        return FrontResponse(status: 204, fields: fields)
    }
}
