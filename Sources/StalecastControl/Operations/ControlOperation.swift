package import StalecastWire

/// One line of the private listener's table: an operation as its document tells it, and the route that serves it.
/// Requests are routed by this table and `/openapi.json` is written from it, so the two cannot differ.
package struct ControlOperation: Sendable {
    package let operation: APIOperation
    /// From what the path's names stand for.
    let makeRoute: @Sendable (PathValues) -> Route

    package init(_ operation: APIOperation, route: @escaping @Sendable (PathValues) -> Route) {
        self.operation = operation
        makeRoute = route
    }
}

/// What the names in a path stand for, decoded.
package struct PathValues: Sendable {
    private let values: [String: String]

    init(_ values: [String: String]) { self.values = values }

    /// Empty when the template has no such name.
    package subscript(name: String) -> String { values[name] ?? "" }

    /// The scope of `{project}` and `{namespace}`; the namespace is `firebase` when the template has none.
    package var scope: ScopeSpelling {
        ScopeSpelling(project: self["project"], namespace: values["namespace"] ?? "firebase")
    }
}

extension ControlOperation {
    /// Everything this listener serves. A resource adds its lines here and describes them in a file of its own.
    package static let all: [ControlOperation] = templates + serving + webhooks + triggers + daemon

    /// The schemas that `$ref`s name.
    static let schemas: [JSONObject] = [
        templateSchemas, servingSchemas, webhookSchemas, triggerSchemas, daemonSchemas,
    ]
}
