import StalecastStore
import StalecastWire

/// From request to answer: route, token, body, resource. Knows nothing of sockets.
package struct ControlResponder: Sendable {
    let dependencies: ControlDependencies
    let configuration: ControlConfiguration

    package init(_ dependencies: ControlDependencies, configuration: ControlConfiguration) {
        self.dependencies = dependencies
        self.configuration = configuration
    }

    /// Finds the route and asks for the token, before any of the body is read.
    package func admit(_ request: ControlRequest) throws(GoogleError) -> Route {
        let found = Result { () throws(RouteError) -> Route in
            try RouteParser.route(method: request.method, path: request.path)
        }
        try authenticate(request, for: found)
        switch found {
        case .success(let route): return route
        case .failure(.notFound): throw .notFound("There is nothing at this path.")
        case .failure(.methodNotAllowed(let allowed)): throw .methodNotAllowed(allowed)
        case .failure(.malformed): throw .invalidArgument("The path is not percent-encoded UTF-8.")
        }
    }

    /// A stranger learns nothing from a path, not even whether it exists.
    private func authenticate(
        _ request: ControlRequest, for found: Result<Route, RouteError>
    ) throws(GoogleError) {
        if case .success(let route) = found,
            !route.needsToken || isOpen(route) || admitsTrigger(route, request)
        {
            return
        }
        guard dependencies.token.admits(authorization: request.headers["authorization"]) else {
            throw GoogleError.unauthenticated.closing()
        }
    }

    private func isOpen(_ route: Route) -> Bool { route == .metrics && configuration.metricsWithoutToken }

    /// Serves an admitted request. Never throws: every failure is an answer.
    package func answer(to request: ControlRequest, _ route: Route, body: [UInt8]) async -> Answer {
        do { return try await serve(route, request, body) } catch { return error.answer }
    }

    private func serve(
        _ route: Route, _ request: ControlRequest, _ body: [UInt8]
    ) async throws(GoogleError) -> Answer {
        switch route {
        case .template(let spelling, let action): try await template(resolve(spelling), action, request, body)
        case .sendMessage(let project): try await sendMessage(resolve(project), body, request.query)
        case .topics(let project): try await listTopics(resolve(project))
        case .status: Answer(await dependencies.status())
        case .metrics: Answer(contentType: Self.metricsType, body: Array(await dependencies.metrics().utf8))
        case .health: Answer(contentType: "text/plain; charset=utf-8", body: Array("ok\n".utf8))
        case .readiness: await readiness()
        case .trigger(let project): try trigger(project, request, body)
        case .webhook(let project, let route): try await webhooks(resolve(project), route, request, body)
        case .openapi: Answer(ControlDocument.json(version: configuration.version))
        }
    }

    private static let metricsType = "text/plain; version=0.0.4; charset=utf-8"

    private func template(
        _ scope: Scope, _ action: Route.TemplateAction, _ request: ControlRequest, _ body: [UInt8]
    ) async throws(GoogleError) -> Answer {
        let resource = TemplateResource(scope: scope, store: dependencies.store, configuration: configuration)
        if action == .publish || action == .rollback, let feed = dependencies.feed(scope) {
            throw .fed(scope, by: feed)
        }
        return switch action {
        case .get: try await resource.get(request.query)
        case .publish: try await resource.publish(request, body: body)
        case .listVersions: try await resource.listVersions(request.query)
        case .rollback: try await resource.rollback(request, body: body)
        case .downloadDefaults: try await resource.downloadDefaults(request.query)
        case .serverTemplate: try await resource.serverTemplate(request.query)
        case .evaluate: try await resource.evaluate(body, pretty: request.query.wantsPretty)
        }
    }

    private func readiness() async -> Answer {
        let reasons = await dependencies.readiness()
        var body: JSONObject = ["ready": .bool(reasons.isEmpty)]
        if !reasons.isEmpty { body["reasons"] = .array(reasons.map(JSONValue.string)) }
        return Answer(status: reasons.isEmpty ? 200 : 503, .object(body))
    }

    // MARK: Names in paths

    func resolve(_ project: String) throws(GoogleError) -> ProjectID {
        if let id = dependencies.store.projects.resolve(project) { return id }
        let known = dependencies.store.projects.projects.map { "\($0.id) (\($0.number))" }.joined(separator: ", ")
        throw .notFound("Requested entity was not found: no such project here. Known projects: \(known).")
    }

    private func resolve(_ spelling: ScopeSpelling) throws(GoogleError) -> Scope {
        let project = try resolve(spelling.project)
        let known = dependencies.namespaces(project)
        guard let namespace = known.first(where: { $0.description == spelling.namespace }) else {
            let names = known.map(\.description).joined(separator: ", ")
            throw .notFound(
                "Requested entity was not found: no such namespace in \(project). Known namespaces: \(names).")
        }
        return Scope(project: project, namespace: namespace)
    }
}
