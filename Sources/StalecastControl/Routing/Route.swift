/// What a request asks for, after its path and method were understood. Projects and namespaces are still as spelled.
package enum Route: Hashable, Sendable {
    case template(ScopeSpelling, TemplateAction)
    case sendMessage(project: String)
    case topics(project: String)
    case status
    case metrics
    case health
    case readiness
    case openapi
    /// An inbound event.
    case trigger(project: String)
    case webhook(project: String, WebhookRoute)

    /// What can be done with a scope's template.
    package enum TemplateAction: Hashable, Sendable {
        case get
        case publish
        case listVersions
        case rollback
        case downloadDefaults
        /// The server template with its conditions as trees, for Admin SDKs.
        case serverTemplate
        /// Which conditions are true for a context, and why.
        case evaluate
    }

    /// True when only the bearer of the control token may have it. `/metrics` can be opened by configuration.
    package var needsToken: Bool {
        switch self {
        case .template, .sendMessage, .topics, .status, .metrics, .openapi, .trigger, .webhook: true
        case .health, .readiness: false
        }
    }

    /// The largest body accepted, in bytes as sent and again after inflation.
    package func maxBodyBytes(template: Int) -> Int {
        if case .template(_, .publish) = self { template } else { 64 * 1024 }
    }
}

/// A scope as a URL spells it.
package struct ScopeSpelling: Hashable, Sendable {
    /// The project's id or its number.
    package let project: String
    /// `firebase` unless the path names one.
    package let namespace: String

    package init(project: String, namespace: String = "firebase") {
        self.project = project
        self.namespace = namespace
    }
}

/// Why a request has no route.
package enum RouteError: Error, Hashable, Sendable {
    case notFound
    /// The path exists for other methods.
    case methodNotAllowed(allow: [String])
    /// The path's percent encoding is broken or hides a NUL.
    case malformed
}

extension Route {
    /// The route's name in metrics.
    package var label: String {
        switch self {
        case .template(_, let action): action.label
        case .sendMessage: "send"
        case .topics: "topics"
        case .status: "status"
        case .metrics: "metrics"
        case .health: "health"
        case .readiness: "readiness"
        case .openapi: "openapi"
        case .trigger: "trigger"
        case .webhook(_, let route): route.label
        }
    }
}

extension Route.TemplateAction {
    fileprivate var label: String {
        switch self {
        case .get: "get"
        case .publish: "publish"
        case .listVersions: "list_versions"
        case .rollback: "rollback"
        case .downloadDefaults: "download_defaults"
        case .serverTemplate: "server_template"
        case .evaluate: "evaluate"
        }
    }
}
