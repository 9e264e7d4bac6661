import NIOHTTP1
import StalecastHTTP
import StalecastHub
import StalecastWire

/// Which answer a request gets; pure, on a board as of now.
struct FrontRouter {
    let board: TopicBoard
    let settings: EdgeSettings
    let served: ServedTemplates

    func route(_ request: FrontRequest) -> FrontOutcome {
        do throws(Refusal) {
            if request.head.method == .POST, let scope = served.scope(atPath: request.path) {
                return try fetch(scope, request)
            }
            if let path = ProjectPath(request.path) { return try serve(path, request) }
        } catch {
            return .respond(.refused(error))
        }
        return routeStream(request)
    }

    private func routeStream(_ request: FrontRequest) -> FrontOutcome {
        guard let methods = Self.methods[String(request.path)] else {
            return .respond(.refused(Self.noSuchPath))
        }
        if request.head.method == .OPTIONS { return .respond(preflight(request, methods)) }
        guard methods.contains(request.head.method) else { return .respond(Self.wrongMethod(methods)) }
        do throws(Refusal) { return try serve(request) } catch { return .respond(.refused(error)) }
    }

    /// Whoever has the two listeners mixed up is told so.
    private static let noSuchPath = Refusal(
        status: 404,
        sentence: "no such path; this is Edge, the public listener: templates, webhooks and status are at Control")

    private static func wrongMethod(_ methods: [HTTPMethod]) -> FrontResponse {
        let allow = methods.map(\.rawValue).joined(separator: ", ")
        var response = FrontResponse.refused(Refusal(status: 405, sentence: "use one of: \(allow)"))
        response.fields = "Allow: \(allow), OPTIONS\r\n"
        return response
    }

    /// The paths without names in them; all are read only.
    private static let methods: [String: [HTTPMethod]] = EdgeOperation.all.reduce(into: [:]) { methods, operation in
        if operation.path.names.isEmpty { methods[operation.path.text] = [.GET, .HEAD] }
    }

    private func serve(_ request: FrontRequest) throws(Refusal) -> FrontOutcome {
        switch request.path {
        case "/healthz": return .respond(FrontResponse(type: "text/plain", body: Array("ok\n".utf8)))
        case "/openapi.json": return .respond(FrontResponse(body: served.document))
        case "/v1/state": return .respond(try state(of: try subscription(.poll, request)))
        case "/v1/events": return .subscribe(try subscription(.events, request))
        default: return .subscribe(try subscription(.poll, request))
        }
    }

    private func subscription(_ kind: StreamRequest.Kind, _ request: FrontRequest) throws(Refusal) -> StreamRequest {
        let subscription = try StreamRequest(
            kind: kind, query: Array(request.query.utf8), headers: request.streamHeaders,
            maxTopics: settings.maxTopicsPerStream)
        try APIKeys(keys: settings.apiKeys).check(subscription.apiKey)
        _ = try subscription.topics(on: board)
        return subscription
    }

    /// What is current: the cursor, and for each scope of the topics the version each topic announced last.
    private func state(of request: StreamRequest) throws(Refusal) -> FrontResponse {
        let (known, unknown) = try request.topics(on: board)
        var state: JSONObject = [
            "cursor": .string(board.head.description), "state": .array(known.map { Self.entry(of: board[$0]) }),
        ]
        if !unknown.isEmpty { state["unknownTopics"] = .array(unknown.map { .string($0.description) }) }
        return FrontResponse(
            fields: PollDialect.etagField(board.head), body: JSONValue.object(state).encoded() + [0x0A])
    }

    private static func entry(of topic: Topic) -> JSONValue {
        var entry: JSONObject = [
            "topic": .string(topic.name.description), "project": .string(topic.scope.project.description),
            "namespace": .string(topic.scope.namespace.description),
            "latestTemplateVersionNumber": .string(String(topic.latest?.version ?? 0)),
        ]
        if let latest = topic.latest {
            entry["etag"] = .string(latest.etag)
            entry["updateTime"] = .string(latest.metadata.updateTime.description)
        }
        return .object(entry)
    }

    private func preflight(_ request: FrontRequest, _ methods: [HTTPMethod]) -> FrontResponse {
        let allow = (methods + [.OPTIONS]).map(\.rawValue).joined(separator: ", ")
        return preflight(
            allow: allow, methods: allow,
            headers: "last-event-id, cache-control, authorization, if-none-match, x-goog-api-key")
    }

    private func preflight(allow: String, methods: String, headers: String) -> FrontResponse {
        var fields = "Allow: \(allow)\r\n"
        if !settings.allowedOrigins.isEmpty {
            fields += "Access-Control-Allow-Methods: \(methods)\r\n"
            fields += "Access-Control-Allow-Headers: \(headers)\r\n"
            fields += "Access-Control-Max-Age: 3600\r\n"
        }
        return FrontResponse(status: 204, fields: fields)
    }
}

// MARK: Firebase's paths

extension FrontRouter {
    /// What Firebase's SDKs send from browsers, on any of their paths.
    private static let firebaseHeaders = """
        content-type, content-encoding, accept, if-none-match, if-match, authorization, x-goog-api-key, \
        x-goog-firebase-installations-auth, x-firebase-client, x-firebase-rc-fetch-type
        """

    private func serve(_ path: ProjectPath, _ request: FrontRequest) throws(Refusal) -> FrontOutcome {
        let method = HTTPMethod(rawValue: path.method)
        if request.head.method == .OPTIONS {
            return .respond(
                preflight(
                    allow: "\(path.method), OPTIONS", methods: "GET, POST, PUT, DELETE, OPTIONS",
                    headers: Self.firebaseHeaders))
        }
        guard request.head.method == method else { return .respond(Self.wrongMethod([method])) }
        switch path {
        case .fetch(let project, let namespace): return try fetch(try served.scope(project, namespace), request)
        case .streamInvalidations(let project, let namespace):
            return try invalidations(project, namespace, request)
        case .createInstallation(let project): return .respond(try createInstallation(project, request))
        case .generateToken(let project, let fid):
            try checkInstallation(project, fid, request)
            return .respond(
                FrontResponse(body: Installations.token().encoded(.pretty) + [0x0A], installation: .token))
        case .deleteInstallation(let project, let fid):
            try checkInstallation(project, fid, request)
            return .respond(FrontResponse(body: Array("{}\n".utf8), installation: .deleted))
        }
    }

    private func fetch(_ scope: FetchScope, _ request: FrontRequest) throws(Refusal) -> FrontOutcome {
        try checkKey(of: request)
        return .fetched(
            try scope.answer(
                request.body, ifNoneMatch: request.head.headers.first(name: "if-none-match"),
                maxBodyBytes: settings.maxBodyBytes))
    }

    private func createInstallation(_ project: String, _ request: FrontRequest) throws(Refusal) -> FrontResponse {
        try checkKey(of: request)
        let number = try served.project(project).number
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let installation = Installations.create(body, projectNumber: number)
        return FrontResponse(body: installation.encoded(.pretty) + [0x0A], installation: .created)
    }

    private func checkInstallation(_ project: String, _ fid: String, _ request: FrontRequest) throws(Refusal) {
        try checkKey(of: request)
        _ = try served.project(project)
        try Installations.check(fid: fid, authorization: request.head.headers.first(name: "authorization"))
    }

    func checkKey(of request: FrontRequest) throws(Refusal) {
        guard !settings.apiKeys.isEmpty else { return }
        let header = request.head.headers.first(name: "x-goog-api-key")
        try APIKeys(keys: settings.apiKeys).check(header: header, query: request.query)
    }
}
