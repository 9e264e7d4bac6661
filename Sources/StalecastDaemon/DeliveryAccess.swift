import StalecastWebhooks
import StalecastWire

/// What Control asks of delivery, in documents as the API has them.
struct DeliveryAccess: Sendable {
    /// Registry and delivery together.
    struct View: Sendable {
        let state: WebhookState
        /// What is owed and how it went; nil when delivery knows nothing of the webhook.
        let figures: JSONValue?
    }

    var view: @Sendable (Webhook) async -> View
    /// A test message now; `{"attempt":{…}}`.
    var test: @Sendable (WebhookID) async throws(RegistryProblem) -> JSONValue
    var enable: @Sendable (WebhookID) async throws(RegistryProblem) -> Void
    /// `{"deliveries":n}`, here and below.
    var redeliver: @Sendable (Webhook, RedeliverRequest) async throws(RegistryProblem) -> JSONValue
    var recover: @Sendable (Webhook, _ since: Timestamp) async throws(RegistryProblem) -> JSONValue
    /// - id: one dead letter; nil is all.
    var redrive: @Sendable (WebhookID, _ id: String?) async throws(RegistryProblem) -> JSONValue
    /// `{"attempts":[…],"nextPageToken":…}`, newest first.
    var attempts: @Sendable (WebhookID, _ size: Int, _ token: String?) async throws(RegistryProblem) -> JSONValue
    /// `{"deadLetters":[…],"nextPageToken":…}`, oldest first.
    var deadLetters: @Sendable (WebhookID, _ size: Int, _ token: String?) async throws(RegistryProblem) -> JSONValue
}

/// Which version is to be sent once more.
struct RedeliverRequest: Sendable, Hashable {
    let scope: Scope
    /// nil is the newest.
    let version: VersionNumber?

    /// - Parameter request: `{"namespace":"firebase","versionNumber":"7"}`, both optional.
    init(_ request: JSONValue, _ webhook: Webhook) throws(RegistryProblem) {
        var namespace = Namespace.firebase
        if let value = request["namespace"], !value.isNull {
            do {
                namespace = try Namespace(value.string ?? "")
            } catch {
                throw .invalid(field: "namespace", "\(error)")
            }
        }
        scope = Scope(project: webhook.project, namespace: namespace)
        guard let value = request["versionNumber"], !value.isNull else {
            version = nil
            return
        }
        guard let number = value.int64, number > 0 else {
            throw .invalid(field: "versionNumber", "must be a number from 1")
        }
        version = number
    }
}
