package import StalecastStore
package import StalecastWire

/// What the private listener needs of the rest of the daemon. Closures are called on any thread; those that are not
/// `async` must not block.
package struct ControlDependencies: Sendable {
    package var store: TemplateStore
    package var token: ControlToken
    /// The namespaces a configured project serves, in configured order.
    package var namespaces: @Sendable (ProjectID) -> [Namespace]
    /// The topics anybody can subscribe to, sorted by name.
    package var topics: @Sendable () -> [TopicSummary]
    /// Subscribers by topic and transport (`sse`, `poll`, …); a topic without any may be missing.
    package var presence: @Sendable () async -> [TopicName: [String: Int]]
    /// Sends data to whoever is connected now.
    package var send: @Sendable (SentMessage) async -> Void
    /// The body of `/metrics`, Prometheus text format 0.0.4.
    package var metrics: @Sendable () async -> String
    /// The body of `/status`, an object.
    package var status: @Sendable () async -> JSONValue
    /// Why the daemon is not ready, sentences without secrets; empty when it is.
    package var readiness: @Sendable () async -> [String]
    /// Registered URLs and what is sent to them. Default: there are none to be had.
    package var webhooks: @Sendable (ProjectID, WebhookCommand) async throws(WebhookRefusal) -> JSONValue = {
        _, _ throws(WebhookRefusal) in throw .unavailable("this daemon sends no webhooks")
    }
    /// Where inbound events go. Default: there is nothing to trigger.
    package var triggers = TriggerDependencies.none
    /// Names the source a scope is fed by, and cannot be published to for; nil where versions come through the API.
    package var feed: @Sendable (Scope) -> String? = { _ in nil }
    /// Hears how each request ended, for metrics.
    package var observe: @Sendable (_ route: String, _ status: Int) -> Void

    package init(
        store: TemplateStore, token: ControlToken,
        namespaces: @escaping @Sendable (ProjectID) -> [Namespace] = { _ in [.firebase, .firebaseServer] },
        topics: @escaping @Sendable () -> [TopicSummary],
        presence: @escaping @Sendable () async -> [TopicName: [String: Int]],
        send: @escaping @Sendable (SentMessage) async -> Void,
        metrics: @escaping @Sendable () async -> String,
        status: @escaping @Sendable () async -> JSONValue,
        readiness: @escaping @Sendable () async -> [String],
        observe: @escaping @Sendable (_ route: String, _ status: Int) -> Void = { _, _ in }
    ) {
        self.store = store
        self.token = token
        self.namespaces = namespaces
        self.topics = topics
        self.presence = presence
        self.send = send
        self.metrics = metrics
        self.status = status
        self.readiness = readiness
        self.observe = observe
    }
}

/// A topic as `topics` lists it.
package struct TopicSummary: Sendable, Hashable {
    package let name: TopicName
    package let scopes: [Scope]
    /// Key patterns; empty means every change.
    package let keys: [KeyPattern]

    package init(name: TopicName, scopes: [Scope], keys: [KeyPattern] = []) {
        self.name = name
        self.scopes = scopes
        self.keys = keys
    }
}

/// A message somebody sent through `messages:send`.
package struct SentMessage: Sendable, Hashable {
    /// Whom it is for.
    package enum Target: Sendable, Hashable {
        case topic(TopicName)
        case condition(TopicCondition)
    }

    package let target: Target
    /// Every value is a string.
    package let data: JSONObject
}
