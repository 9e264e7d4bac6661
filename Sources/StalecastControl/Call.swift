import NIOHTTP1
import StalecastHTTP
import StalecastStore
import StalecastWire

/// An admitted request with its body, as the operations' handlers see it.
package struct Call: Sendable {
    let control: Control
    let head: RequestHead
    /// What the path's names stand for.
    let names: PathValues
    /// Whether the control token was shown.
    let isOperator: Bool
    /// Inflated; empty when there is none.
    let body: [UInt8]
    /// Read after the token: it is a stranger's until then.
    let query: QueryParameters

    init(control: Control, head: RequestHead, names: PathValues, isOperator: Bool, body: [UInt8]) {
        self.control = control
        self.head = head
        self.names = names
        self.isOperator = isOperator
        self.body = body
        query = QueryParameters(head.query)
    }

    /// The first field of that name.
    subscript(field name: String) -> String? { head.headers.first(name: name) }

    /// Google pretty-prints by default; here one has to ask.
    var wantsPretty: Bool { query["prettyPrint"] == "true" }

    /// Who calls, as far as a version's metadata tells it: the Node Admin SDK names itself.
    var updateOrigin: UpdateOrigin {
        (self[field: "x-firebase-client"] ?? "").contains("fire-admin-node/") ? .adminSDKNode : .restAPI
    }

    /// The person who calls, for the version's metadata: header `X-Stalecast-User`, an address with `@` or a name, at
    /// most 256 bytes. Whoever holds the token is believed.
    var updateUser: UpdateUser {
        let text = String(decoding: (self[field: "x-stalecast-user"] ?? "").utf8.prefix(256), as: UTF8.self)
        return text.contains("@") ? UpdateUser(email: text) : UpdateUser(name: text)
    }

    // MARK: Names in paths

    /// The path's project, an id or a number.
    func project() throws(GoogleError) -> ProjectID {
        let projects = control.store.projects
        if let id = projects.resolve(names["project"]) { return id }
        let known = projects.projects.map { "\($0.id) (\($0.number))" }.joined(separator: ", ")
        throw .notFound("Requested entity was not found: no such project here. Known projects: \(known).")
    }

    /// The path's project and namespace.
    func scope(namespace name: String) throws(GoogleError) -> Scope {
        let project = try project()
        let known = control.namespaces(project)
        guard let namespace = known.first(where: { $0.description == name }) else {
            let names = known.map(\.description).joined(separator: ", ")
            throw .notFound(
                "Requested entity was not found: no such namespace in \(project). Known namespaces: \(names).")
        }
        return Scope(project: project, namespace: namespace)
    }

    /// The template of the path's scope; the namespace is `firebase` when the path has none.
    ///
    /// - Parameter namespace: where the path means one without naming it so.
    func template(namespace: String? = nil) throws(GoogleError) -> TemplateResource {
        let named = names["namespace"]
        let scope = try scope(namespace: namespace ?? (named.isEmpty ? Namespace.firebase.description : named))
        return TemplateResource(scope: scope, store: control.store, configuration: control.configuration)
    }

    /// The same, to be changed.
    ///
    /// - Throws: 400 where the versions come from a source.
    func publishableTemplate() throws(GoogleError) -> TemplateResource {
        let resource = try template()
        guard let feed = control.feed(resource.scope) else { return resource }
        throw .fed(resource.scope, by: feed)
    }
}
