import NIOHTTP1
package import StalecastAccess
import StalecastHTTP
package import StalecastHub
package import StalecastSources
package import StalecastStore
import StalecastWire

/// The private listener without its socket: from request to answer, over the parts it speaks for. Closures are called
/// on any thread; those that are not `async` must not block.
package struct Control: Sendable {
    package let configuration: ControlConfiguration
    let access: Authorizer
    let sessions: ConsoleSessions
    let store: TemplateStore
    let hub: Hub
    let webhooks: WebhookService
    let triggers: TriggerService
    let tally: ControlTally
    /// Bad credentials.
    let failures = FailureRates()
    /// nil keeps no audit log.
    let copies: AuditCopies?
    var audit: AuditLog? { copies?.audit }
    /// Called with a version that was published without the required approval, and with its publisher.
    let bypassed: @Sendable (StoredVersion, _ by: String) -> Void
    let reports: ControlReports
    /// nil outside a cluster.
    let cluster: ClusterService?
    /// nil outside a cluster, too.
    let relay: MessageRelay?
    let keys: any KeyStorage

    package init(
        _ configuration: ControlConfiguration, access: Authorizer, sessions: ConsoleSessions = ConsoleSessions(),
        store: TemplateStore, hub: Hub, webhooks: WebhookService, triggers: TriggerService,
        tally: ControlTally = ControlTally(), audit copies: AuditCopies? = nil,
        bypassed: @escaping @Sendable (StoredVersion, _ by: String) -> Void = { _, _ in },
        reports: ControlReports, cluster: ClusterService? = nil, relay: MessageRelay? = nil,
        keys: (any KeyStorage)? = nil
    ) {
        self.relay = relay
        self.keys = keys ?? OwnKeys(store: store, access: access)
        (self.cluster, self.configuration, self.access, self.sessions) = (cluster, configuration, access, sessions)
        (self.store, self.hub, self.webhooks, self.triggers) = (store, hub, webhooks, triggers)
        (self.tally, self.copies, self.bypassed, self.reports) = (tally, copies, bypassed, reports)
    }

    // MARK: Admission

    /// Permission of a request.
    struct Admission: Sendable {
        let match: OperationTable<ControlHandler>.Match
        /// nil is a stranger, where strangers may call.
        let principal: Principal?
        /// The largest body, in bytes as sent and again inflated.
        let maxBodyBytes: Int

        /// The operation's name in metrics.
        var name: String { if case .operation(let operation, _) = match { operation.document.id } else { "options" } }

        /// Whether the request only publishes, and takes little time to read: see ``WriterQueue``.
        func isShortPublish(_ request: Request) -> Bool {
            guard case .operation(let operation, _) = match, operation.handler.takesTemplate else { return false }
            return request.query.isEmpty && request.body.count <= 16 << 10
                && !request.head.headers.contains(name: "content-encoding")
        }
    }

    /// Largest body that is not a template, in bytes.
    private static let maxBodyBytes = 64 * 1024

    /// Finds the operation and asks who calls and whether they may, before any of the body is read. A stranger learns
    /// nothing from a path, not even whether it exists; nor does a principal of a scope it has no grant for.
    ///
    /// - Parameters:
    ///   - isGuessing: see ``Caller``.
    ///   - certificate: what the client showed in the handshake.
    func admit(
        _ head: RequestHead, isGuessing: Bool = false, _ certificate: ClientCertificate? = nil
    ) throws(GoogleError) -> Admission {
        let caller = try Caller(head, self, isGuessing: isGuessing, certificate)
        let match: OperationTable<ControlHandler>.Match
        do throws(GoogleError) { match = try ControlOperations.table.find(head.method.rawValue, head.path) } catch {
            _ = try caller.known()
            throw error
        }
        guard case .operation(let operation, let names) = match else {
            return Admission(match: match, principal: try caller.known(), maxBodyBytes: Self.maxBodyBytes)
        }
        let isPermitted = caller.principal.map { self.isPermitted($0, operation, names) } ?? false
        if !isPermitted, !admitsStranger(operation, names, head) {
            _ = try caller.known()
            throw caller.refused(.notGranted)
        }
        let limit = operation.handler.takesTemplate ? configuration.settings.maxTemplateBytes : Self.maxBodyBytes
        return Admission(match: match, principal: caller.principal, maxBodyBytes: limit)
    }

    private func admitsStranger(
        _ operation: ControlOperation, _ names: PathValues, _ head: RequestHead
    ) -> Bool {
        switch operation.handler.access {
        case .granted: false
        case .anyone: true
        case .metrics: configuration.settings.metricsWithoutToken
        case .trigger: triggers.admits(triggerPost(head, names["project"], isOperator: false))
        }
    }

    /// Whether the grants permit the operation on the project and namespace in its path. A name that does not exist is
    /// judged as it is spelled, so that a principal without a grant gets the same answer as for one that exists.
    private func isPermitted(_ principal: Principal, _ operation: ControlOperation, _ names: PathValues) -> Bool {
        guard let action = operation.document.action else { return true }
        let namespace: String
        switch operation.handler.about {
        case .document: return principal.maySomewhere(action)
        case .daemon: return principal.mayEverywhere(action)
        case .project: return may(principal, action, project: names["project"])
        case .template(let fixed): namespace = fixed ?? (names["namespace"].isEmpty ? "firebase" : names["namespace"])
        }
        let project = store.projects.resolve(names["project"])?.description ?? names["project"]
        return principal.may(action, project: project, namespace: namespace)
    }

    /// Whether the principal may do this to a whole project; `name` is its id or number.
    func may(
        _ principal: Principal, _ action: AccessAction, project name: String, _ topics: Grant.Topics = .irrelevant
    ) -> Bool {
        guard let project = store.projects.resolve(name), let own = configuration.projects.namespaces[project] else {
            return principal.may(action, project: name)
        }
        return own.allSatisfy {
            principal.may(action, in: Scope(project: project, namespace: $0), topics)
        }
    }

    /// Serves an admitted request. Never throws: every failure is an answer.
    ///
    /// - Parameter peer: the address it came from.
    @concurrent
    func answer(to request: Request, _ admission: Admission, peer: String?) async -> Answer {
        switch admission.match {
        case .options(let allowed): return .options(allowed)
        case .operation(let operation, let names):
            do throws(GoogleError) {
                let call = Call(
                    control: self, head: request.head, names: names, principal: admission.principal, peer: peer,
                    body: try RequestBody.inflated(request.body, cap: admission.maxBodyBytes))
                // Asks before anything is done: afterwards a change without its line could not be taken back.
                guard canRecord(operation) else { throw .auditIsFull }
                let check = { () throws(GoogleError) in try mustBeAnsweredHere(operation) }
                guard let entry = auditEntry(of: operation, names, call) else {
                    return await operation.handler.answer(call, check)
                }
                var answer = await AuditEntry.$current.withValue(entry) { await operation.handler.answer(call, check) }
                record(entry, operation, call, &answer)
                return answer
            } catch {
                return error.answer
            }
        }
    }
}

extension ControlHandler {
    /// - Parameter check: refuses what this node does not do, so that the audit log has the refusal.
    fileprivate func answer(_ call: Call, _ check: () throws(GoogleError) -> Void) async -> Answer {
        do throws(GoogleError) {
            try check()
            return try await serve(call)
        } catch {
            // The line names the publish whose outcome is not known: its version may yet come.
            for detail in error.details { if let id = detail["publishId"] { call.note.set("publishId", id) } }
            return error.answer
        }
    }
}
