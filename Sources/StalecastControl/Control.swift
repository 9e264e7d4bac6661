import NIOHTTP1
import StalecastHTTP
package import StalecastHub
package import StalecastSources
package import StalecastStore
package import StalecastWire

/// The private listener without its socket: from request to answer, over the parts it speaks for. Closures are called
/// on any thread; those that are not `async` must not block.
package struct Control: Sendable {
    package let configuration: ControlConfiguration
    let token: ControlToken
    let store: TemplateStore
    let hub: Hub
    let webhooks: WebhookDesk
    let triggers: TriggerDesk
    let tally: ControlTally
    /// The namespaces a configured project serves, in configured order.
    let namespaces: @Sendable (ProjectID) -> [Namespace]
    /// Names the source a scope is fed by, and cannot be published to for; nil where versions come through the API.
    let feed: @Sendable (Scope) -> String?
    /// Subscribers by topic and transport (`sse`, `poll`, …); a topic without any may be missing.
    let presence: @Sendable (ProjectID) async -> [TopicName: [String: Int]]
    /// The body of `/metrics`, Prometheus text format 0.0.4.
    let metrics: @Sendable () async -> String
    /// The body of `/status`, an object.
    let status: @Sendable () async -> JSONValue
    /// Why the daemon is not ready, sentences without secrets; empty when it is.
    let readiness: @Sendable () async -> [String]

    package init(
        _ configuration: ControlConfiguration, token: ControlToken, store: TemplateStore, hub: Hub,
        webhooks: WebhookDesk, triggers: TriggerDesk, tally: ControlTally = ControlTally(),
        namespaces: @escaping @Sendable (ProjectID) -> [Namespace] = { _ in [.firebase, .firebaseServer] },
        feed: @escaping @Sendable (Scope) -> String? = { _ in nil },
        presence: @escaping @Sendable (ProjectID) async -> [TopicName: [String: Int]],
        metrics: @escaping @Sendable () async -> String, status: @escaping @Sendable () async -> JSONValue,
        readiness: @escaping @Sendable () async -> [String]
    ) {
        self.configuration = configuration
        self.token = token
        self.store = store
        self.hub = hub
        self.webhooks = webhooks
        self.triggers = triggers
        self.tally = tally
        self.namespaces = namespaces
        self.feed = feed
        self.presence = presence
        self.metrics = metrics
        self.status = status
        self.readiness = readiness
    }

    // MARK: Admission

    /// What a request may do here.
    struct Admission: Sendable {
        let match: OperationTable<ControlHandler>.Match
        /// Whether the control token was shown.
        let isOperator: Bool
        /// The largest body, in bytes as sent and again inflated.
        let maxBodyBytes: Int

        /// The operation's name in metrics.
        var name: String { if case .operation(let operation, _) = match { operation.document.id } else { "options" } }
    }

    /// Other bodies are settings and choices.
    private static let maxBodyBytes = 64 * 1024

    /// Finds the operation and asks for the token, before any of the body is read. A stranger learns nothing from a
    /// path, not even whether it exists.
    func admit(_ head: RequestHead) throws(GoogleError) -> Admission {
        let isOperator = token.admits(authorization: head.headers.first(name: "authorization"))
        let match: OperationTable<ControlHandler>.Match
        do throws(GoogleError) { match = try ControlOperations.table.find(head.method.rawValue, head.path) } catch {
            throw isOperator ? error : .unauthenticated
        }
        var limit = Self.maxBodyBytes
        if case .operation(let operation, let names) = match {
            guard isOperator || admitsStranger(operation, names, head) else { throw .unauthenticated }
            if operation.handler.takesTemplate { limit = configuration.maxTemplateBytes }
        } else if !isOperator {
            throw .unauthenticated
        }
        return Admission(match: match, isOperator: isOperator, maxBodyBytes: limit)
    }

    private func admitsStranger(
        _ operation: ControlOperation, _ names: PathValues, _ head: RequestHead
    ) -> Bool {
        switch operation.handler.access {
        case .token: false
        case .anyone: true
        case .metrics: configuration.metricsWithoutToken
        case .trigger: triggers.admits(triggerPost(head, names["project"], isOperator: false))
        }
    }

    /// Serves an admitted request. Never throws: every failure is an answer.
    @concurrent
    func answer(to request: Request, _ admission: Admission) async -> Answer {
        switch admission.match {
        case .options(let allowed): return .options(allowed)
        case .operation(let operation, let names):
            do throws(GoogleError) {
                let call = Call(
                    control: self, head: request.head, names: names, isOperator: admission.isOperator,
                    body: try RequestBody.inflated(request.body, cap: admission.maxBodyBytes))
                return try await operation.handler.run(call)
            } catch {
                return error.answer
            }
        }
    }
}
