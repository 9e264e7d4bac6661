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
            // A storm of fetches finds its scope by the whole path, as SDKs spell it.
            if request.head.method == .POST, let scope = served.scope(atPath: request.path) {
                return try fetch(scope, request)
            }
            return try serve(request)
        } catch {
            return .respond(.refused(error))
        }
    }

    private func serve(_ request: FrontRequest) throws(Refusal) -> FrontOutcome {
        let match: OperationTable<EdgeHandler>.Match
        do throws(GoogleError) {
            match = try EdgeOperations.table.find(request.head.method.rawValue, request.path)
        } catch {
            return .respond(error.code == 404 ? .refused(Self.noSuchPath) : FrontResponse(error))
        }
        switch match {
        case .options(let allowed): return .respond(preflight(allowed.joined(separator: ", ")))
        case .operation(let operation, let names): return try operation.handler.run(self, request, names)
        }
    }

    /// Whoever has the two listeners mixed up is told so.
    private static let noSuchPath = Refusal(
        status: 404,
        sentence: "no such path; this is Edge, the public listener: templates, webhooks and status are at Control")

    /// The answer to OPTIONS, which browsers ask before they let a page of another origin ask more.
    private func preflight(_ allowed: String) -> FrontResponse {
        var fields = "Allow: \(allowed)\r\n"
        if !settings.allowedOrigins.isEmpty {
            fields += "Access-Control-Allow-Methods: \(allowed)\r\n"
            fields += "Access-Control-Allow-Headers: \(Self.askedHeaders)\r\n"
            fields += "Access-Control-Max-Age: 3600\r\n"
        }
        return FrontResponse(status: 204, fields: fields)
    }

    /// What pages send on streams and polls, and Firebase's SDKs on theirs.
    private static let askedHeaders = """
        last-event-id, cache-control, content-type, content-encoding, accept, if-none-match, if-match, authorization, \
        x-goog-api-key, x-goog-firebase-installations-auth, x-firebase-client, x-firebase-rc-fetch-type
        """
}

// MARK: Streams and polls

extension FrontRouter {
    func subscription(_ kind: StreamRequest.Kind, _ request: FrontRequest) throws(Refusal) -> StreamRequest {
        let subscription = try StreamRequest(
            kind: kind, query: Array(request.query.utf8), headers: request.streamHeaders,
            maxTopics: settings.maxTopicsPerStream)
        try APIKeys(keys: settings.apiKeys).check(subscription.apiKey)
        _ = try subscription.topics(on: board)
        return subscription
    }

    /// What is current: the cursor, and for each scope of the topics the version each topic announced last.
    func state(of request: StreamRequest) throws(Refusal) -> FrontResponse {
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

    /// Firebase's real-time stream. A client that knows no version, or an older one, is told the newest at once.
    func invalidations(
        _ project: String, _ namespace: String, _ request: FrontRequest
    ) throws(Refusal) -> FrontOutcome {
        try checkKey(of: request)
        let scope = try served.scope(project, namespace).scope
        guard board.invalidations(of: scope) != nil else { throw Refusal(status: 404, sentence: "no such namespace") }
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let known = (body["lastKnownVersionNumber"] ?? body["last_known_version_number"])?.int64 ?? 0
        let headers = request.streamHeaders
        return .subscribe(
            StreamRequest(
                kind: .invalidations, topics: [.ofScope(scope)], project: scope.project.description,
                resume: ResumePoint(have: VersionNumber(clamping: known)), isHTTP11: headers.isHTTP11,
                keepAlive: headers.keepAlive, origin: headers.origin))
    }
}

// MARK: Fetches and installations

extension FrontRouter {
    func fetch(_ scope: FetchScope, _ request: FrontRequest) throws(Refusal) -> FrontOutcome {
        try checkKey(of: request)
        return .fetched(
            try scope.answer(
                request.body, ifNoneMatch: request.head.headers.first(name: "if-none-match"),
                maxBodyBytes: settings.maxBodyBytes))
    }

    func createInstallation(_ project: String, _ request: FrontRequest) throws(Refusal) -> FrontResponse {
        try checkKey(of: request)
        let number = try served.project(project).number
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let installation = Installations.create(body, projectNumber: number)
        return FrontResponse(body: installation.encoded(.pretty) + [0x0A], installation: .created)
    }

    func checkInstallation(_ project: String, _ fid: String, _ request: FrontRequest) throws(Refusal) {
        try checkKey(of: request)
        _ = try served.project(project)
        try Installations.check(fid: fid, authorization: request.head.headers.first(name: "authorization"))
    }

    private func checkKey(of request: FrontRequest) throws(Refusal) {
        guard !settings.apiKeys.isEmpty else { return }
        let header = request.head.headers.first(name: "x-goog-api-key")
        try APIKeys(keys: settings.apiKeys).check(header: header, query: request.query)
    }
}
