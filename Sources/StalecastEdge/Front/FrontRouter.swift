import NIOCore
import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastWire

/// Chooses the answer to a request; pure, on a board as of now.
struct FrontRouter {
    let board: TopicBoard
    let settings: EdgeSettings
    let served: ServedTemplates

    func route(_ request: FrontRequest) -> FrontOutcome {
        do throws(GoogleError) {
            if let outcome = try fetchAtOnce(request) { return outcome }
            return try serve(request)
        } catch {
            return .respond(FrontResponse(error))
        }
    }

    /// A storm of fetches finds its scope by the whole path, as SDKs spell it. A caller without permission takes the
    /// longer way, as does a request for an unknown scope, after the same check of the caller: the time of the answer
    /// does not tell the two apart.
    private func fetchAtOnce(_ request: FrontRequest) throws(GoogleError) -> FrontOutcome? {
        guard request.head.method == .POST, !request.mayBeStream else { return nil }
        let scope = served.scope(atPath: request.path)
        let asked = scope?.scope ?? Self.anyScope
        let isPermitted = settings.permits(request.credentials) { $0.may(.fetch, in: asked) }
        guard isPermitted, let scope else { return nil }
        if settings.access.mode != .enforce { try check(request) { $0.may(.fetch, in: scope.scope) } }
        return try fetch(scope, request)
    }

    /// Asked about in place of one that is not there; the answer is not used.
    private static let anyScope = Scope(project: .demo, namespace: .firebase)

    private func serve(_ request: FrontRequest) throws(GoogleError) -> FrontOutcome {
        let match: OperationTable<EdgeHandler>.Match
        do throws(GoogleError) {
            let isLaunchDarkly = request.launchDarkly != nil
            if isLaunchDarkly, !settings.dialects.contains(.launchDarkly) { throw Self.noLaunchDarkly }
            let table = isLaunchDarkly ? EdgeOperations.launchDarkly : EdgeOperations.table
            match = try table.find(request.head.method.rawValue, request.path)
        } catch {
            let isUnknown = error.code == 404 && error != Self.noLaunchDarkly
            return .respond(FrontResponse(isUnknown ? Self.noSuchPath : error))
        }
        switch match {
        case .options(let allowed): return .respond(preflight(allowed.joined(separator: ", ")))
        case .operation(let operation, let names): return try operation.handler.run(self, request, names)
        }
    }

    /// Error for a request that belongs to the other listener.
    private static let noSuchPath = GoogleError(
        404, "no such path; this is Edge, the public listener: templates, webhooks and status are at Control")

    private static let noLaunchDarkly = GoogleError(
        404, "LaunchDarkly's SDKs are not served here: the configuration's edge.dialects does not name launchdarkly")

    /// Answer to OPTIONS, which browsers send before they let a page of another origin send its request.
    private func preflight(_ allowed: String) -> FrontResponse {
        var fields = "Allow: \(allowed)\r\n"
        if !settings.allowedOrigins.isEmpty {
            fields += "Access-Control-Allow-Methods: \(allowed)\r\n"
            let others = settings.dialects.contains(.launchDarkly) ? Self.launchDarklyHeaders : ""
            fields += "Access-Control-Allow-Headers: \(Self.askedHeaders)\(others)\r\n"
            fields += "Access-Control-Max-Age: 3600\r\n"
        }
        return FrontResponse(status: 204, fields: fields)
    }

    /// Header fields that pages send on streams and polls, and Firebase's SDKs on theirs.
    private static let askedHeaders = """
        last-event-id, cache-control, x-stalecast-client, x-stalecast-cursor, content-type, content-encoding, accept, \
        if-none-match, if-match, authorization, x-api-key, x-goog-api-key, x-goog-firebase-installations-auth, \
        x-firebase-client, x-firebase-rc-fetch-type
        """
}

// MARK: Streams and polls

extension FrontRouter {
    func subscription(_ kind: StreamRequest.Kind, _ request: FrontRequest) throws(GoogleError) -> StreamRequest {
        var subscription = try StreamRequest(
            kind: kind, query: Array(request.query.utf8), headers: request.streamHeaders,
            maxTopics: settings.maxTopicsPerStream)
        subscription.address = request.address
        _ = try settings.admit(subscription, on: board, counts: true)
        return subscription
    }

    /// Puts the request's credential into a cookie, or takes the cookie away.
    func session(_ request: FrontRequest, isEnding: Bool) throws(GoogleError) -> FrontResponse {
        guard SessionCookie.isListed(request, settings.allowedOrigins) else {
            throw GoogleError(403, "this origin is not in edge.allowedOrigins")
        }
        if isEnding { return FrontResponse(status: 204, fields: SessionCookie.ending) }
        guard let authorizer = settings.access.authorizer else { throw .denied(.notReady) }
        let found: (text: String, expiresAt: Timestamp?)
        do throws(Denial) { found = try authorizer.session(for: request.credentials) } catch {
            settings.countRefusal(error, of: request)
            throw .denied(error)
        }
        return FrontResponse(status: 204, fields: try SessionCookie.field(found.text, until: found.expiresAt))
    }

    /// A ticket for a stream or poll that the caller may open itself.
    func ticket(_ request: FrontRequest) throws(GoogleError) -> FrontResponse {
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let wanted = try StreamRequest(ticketBody: body, request.credentials, maxTopics: settings.maxTopicsPerStream)
        guard wanted.topics.reduce(0, { $0 + $1.description.utf8.count }) <= Ticket.maxNameBytes else {
            throw .invalidArgument("the names of a ticket's topics have at most \(Ticket.maxNameBytes) bytes together")
        }
        var principal = try settings.admit(wanted, on: board, counts: true).principal
        guard let authorizer = settings.access.authorizer else { throw .denied(.notReady) }
        // The ticket stands for a known caller also where none is refused.
        if settings.access.mode != .enforce {
            principal = (try? authorizer.admit(request.credentials, at: .edge))?.number ?? 0
        }
        let ticket = Ticket(
            principal: principal, hold: authorizer.hold(principal), topics: wanted.topics, project: wanted.project,
            namespace: wanted.namespace)
        var random = SystemRandomNumberGenerator()
        // Strangers share no count: one of them could leave no ticket for the others.
        let holder =
            principal == 0 ? "address:\(request.address)" : authorizer.currentPrincipal(of: principal)?.actor ?? ""
        let most = principal == 0 ? TicketBook.maxOfAddress : TicketBook.maxOfPrincipal
        guard let made = authorizer.tickets.make(ticket, of: holder, most: most, using: &random) else {
            throw .tooManyTickets
        }
        let json: JSONValue = [
            "ticket": .string(made.text), "expiresAt": .string(made.expiresAt.description),
            "expiresInMs": .int(TicketBook.life.milliseconds),
        ]
        return FrontResponse(body: json.encoded() + [0x0A])
    }

    /// Current state: the cursor, and for each scope of the topics the version each topic announced last.
    func state(of request: StreamRequest) throws(GoogleError) -> FrontResponse {
        let topics = try settings.admit(request, on: board, counts: false)
        return FrontResponse(
            fields: PollDialect.etagField(board.head), body: StateDialect.body(topics, on: board))
    }

    /// Firebase's real-time stream. A client that knows no version, or an older one, is told the newest at once.
    func invalidations(
        _ project: String, _ namespace: String, _ request: FrontRequest
    ) throws(GoogleError) -> FrontOutcome {
        let scope = try servedScope(project, namespace, .watch, request).scope
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let known = (body["lastKnownVersionNumber"] ?? body["last_known_version_number"])?.int64 ?? 0
        let held = VersionNumber(clamping: known)
        let client = FetchRequest.client(ofStream: body, known: held)
        return try stream(.invalidations, of: scope, client, have: held, request)
    }

    /// A stream of one scope alone.
    ///
    /// - Parameter have: the version that the client holds; of a newer one it is told at once.
    func stream(
        _ kind: StreamRequest.Kind, of scope: Scope, _ client: ClientIdentity?, have: VersionNumber,
        _ request: FrontRequest
    ) throws(GoogleError) -> FrontOutcome {
        guard board.invalidations(of: scope) != nil else { throw GoogleError(404, "no such namespace") }
        return .subscribe(
            StreamRequest(
                kind: kind, topics: [.ofScope(scope)], project: scope.project.description,
                credentials: request.credentials, client: client, resume: ResumePoint(have: have),
                isHTTP11: request.isHTTP11, keepAlive: request.head.keepsAlive, origin: request.origin,
                address: request.address))
    }
}

// MARK: Fetches and installations

extension FrontRouter {
    /// - Parameter scope: one that may be fetched.
    func fetch(_ scope: FetchScope, _ request: FrontRequest) throws(GoogleError) -> FrontOutcome {
        .fetched(
            try scope.answer(
                request.body, ifNoneMatch: request.head.headers.first(name: "if-none-match"),
                maxBodyBytes: settings.maxBodyBytes, address: request.isCanary ? nil : request.address))
    }

    func config(
        _ project: String, _ namespace: String, _ request: FrontRequest
    ) throws(GoogleError) -> FrontResponse {
        let scope = try servedScope(project, namespace, .fetch, request)
        guard let version = QueryParameters(request.query)["version"].flatMap({ VersionNumber($0) }) else {
            throw .invalidArgument("name the version of the message, for example ?version=17")
        }
        let bytes = try scope.values(of: version)
        return FrontResponse(
            type: "application/json; charset=utf-8", fields: SharedPoll.vary, body: Array(bytes.body.readableBytesView),
            caching: "public, max-age=31536000, immutable")
    }

    /// Takes a client's report of its version, from a caller that may watch the scope or fetch from it.
    func report(_ request: FrontRequest) throws(GoogleError) -> FrontOutcome {
        guard request.body.count <= Self.maxReportBytes else {
            throw GoogleError(413, "a report has at most \(Self.maxReportBytes) bytes")
        }
        let body = try RequestBody.object(request.body, cap: Self.maxReportBytes)
        func text(_ name: String) -> String { body[name]?.string ?? "" }
        guard let state = ClientReport.State(rawValue: text("state")),
            let version = body["versionNumber"]?.versionNumber
        else {
            throw .invalidArgument(
                "a report has versionNumber, 0 to \(VersionNumber.max), and state: fetched, active or failed")
        }
        guard let client = ClientIdentity(text("client"), app: text("app"), sdk: text("sdk")) else {
            throw .invalidArgument("client is 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ -")
        }
        let named = (project: text("project"), namespace: body["namespace"]?.string ?? "firebase")
        let project = served.find(named.project)
        try check(request) { principal in
            let id = project?.id.description ?? named.project
            return [.watch, .fetch].contains { principal.may($0, project: id, namespace: named.namespace) }
        }
        guard let project, let namespace = project.namespaces.first(where: { $0.description == named.namespace }) else {
            throw .unknownProject
        }
        return .claim(
            client, Scope(project: project.id, namespace: namespace),
            ClientReport(state, version, error: text("error")))
    }

    private static let maxReportBytes = 1024

    func createInstallation(_ project: String, _ request: FrontRequest) throws(GoogleError) -> FrontResponse {
        let number = try servedProject(project, .fetch, request).number
        let body = try RequestBody.object(request.body, cap: settings.maxBodyBytes)
        let installation = Installations.create(body, projectNumber: number)
        return FrontResponse(body: installation.encoded(.pretty) + [0x0A], installation: .created)
    }

    func checkInstallation(_ project: String, _ fid: String, _ request: FrontRequest) throws(GoogleError) {
        _ = try servedProject(project, .fetch, request)
        try Installations.check(fid: fid, authorization: request.head.headers.first(name: "authorization"))
    }

    private func check(_ request: FrontRequest, _ isPermitted: (Principal) -> Bool) throws(GoogleError) {
        // Credentials are not read where none is asked for.
        if settings.access.mode == .off, settings.apiKeys.isEmpty { return }
        try settings.check(request.credentials, of: request.loggedPath, isPermitted)
    }

    /// A project by its id or number, for a caller that may do so to any of it. One that is not there is judged as it
    /// stands.
    private func servedProject(
        _ name: String, _ action: AccessAction, _ request: FrontRequest
    ) throws(GoogleError) -> ServedTemplates.Project {
        let project = served.find(name)
        try check(request) { $0.may(action, project: project?.id.description ?? name) }
        guard let project else { throw .unknownProject }
        return project
    }

    func servedScope(
        _ project: String, _ namespace: String, _ action: AccessAction, _ request: FrontRequest
    ) throws(GoogleError) -> FetchScope {
        let id = served.find(project)?.id.description ?? project
        let topics: Grant.Topics = action == .watch ? .all : .irrelevant
        try check(request) { $0.may(action, project: id, namespace: namespace, topics) }
        return try served.scope(project, namespace)
    }
}
