import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire

/// An admitted request with its body, as the operations' handlers see it.
package struct Call: Sendable {
    let control: Control
    let head: RequestHead
    let names: PathValues
    /// nil is a stranger, where strangers may call.
    let principal: Principal?
    /// The address it came from.
    let peer: String?
    /// Note for the audit log.
    let note = AuditNote()
    /// Inflated; empty when there is none.
    let body: [UInt8]
    /// Read after the token: it is a stranger's until then.
    let query: QueryParameters

    init(control: Control, head: RequestHead, names: PathValues, principal: Principal?, peer: String?, body: [UInt8]) {
        (self.control, self.head, self.names) = (control, head, names)
        (self.principal, self.peer, self.body) = (principal, peer, body)
        query = QueryParameters(head.query)
    }

    subscript(field name: String) -> String? { head.headers.first(name: name) }

    /// The field `If-Match`; nil where there is none.
    ///
    /// - Throws: 400 for several: they may contradict each other.
    func ifMatch() throws(GoogleError) -> String? {
        let fields = head.headers["if-match"]
        guard fields.count < 2 else { throw .invalidArgument("If-Match is given twice; send it once.") }
        return fields.first
    }

    /// Google pretty-prints by default; here one has to ask.
    var wantsPretty: Bool { query["prettyPrint"] == "true" }

    /// Origin for a version's metadata: the Node Admin SDK names itself.
    var updateOrigin: UpdateOrigin {
        self[field: "x-firebase-client"]?.contains("fire-admin-node/") == true ? .adminSDKNode : .restAPI
    }

    /// Caller for a version's metadata: a key by its id and name, a token by what its issuer says of its subject. A
    /// caller with the control token may name its user in the header `X-Stalecast-User`: an address with `@` or a name,
    /// at most 256 bytes. Without the header the user is `control token`.
    var updateUser: UpdateUser {
        switch principal?.kind {
        case .key?, .token?, .certificate?: return principal?.updateUser ?? UpdateUser()
        default: break
        }
        let text = String(decoding: (self[field: "x-stalecast-user"] ?? "").utf8.prefix(256), as: UTF8.self)
        if text.isEmpty, principal?.kind == .bootstrap { return UpdateUser(name: "control token") }
        return text.contains("@") ? UpdateUser(email: text) : UpdateUser(name: text)
    }

    // MARK: Names in paths

    /// The path's project, an id or a number.
    func project() throws(GoogleError) -> ProjectID {
        let projects = control.store.projects
        if let id = projects.resolve(names["project"]) { return id }
        let visible = projects.projects.filter { principal?.may(.read, project: $0.id.description) ?? false }
        let known = visible.map { "\($0.id) (\($0.number))" }.joined(separator: ", ")
        throw .notFound("Requested entity was not found: no such project here. Known projects: \(known).")
    }

    /// The path's project and namespace.
    func scope(namespace name: String) throws(GoogleError) -> Scope {
        let project = try project()
        let known = control.configuration.projects.namespaces[project] ?? []
        guard let namespace = known.first(where: { $0.description.utf8.elementsEqual(name.utf8) }) else {
            let visible = known.filter { principal?.may(.read, in: Scope(project: project, namespace: $0)) ?? false }
            let names = visible.map(\.description).joined(separator: ", ")
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

    /// Template that is to be changed.
    ///
    /// - Throws: 400 where the versions come from a source.
    func publishableTemplate() throws(GoogleError) -> TemplateResource {
        let resource = try template()
        guard let feed = control.configuration.projects.feeds[resource.scope] else { return resource }
        throw .fed(resource.scope, by: feed)
    }
}

extension Principal {
    /// Principal in the form that versions keep.
    var updateUser: UpdateUser {
        if kind == .certificate { return UpdateUser(name: id) }
        if kind == .key { return UpdateUser(name: name, email: "\(id)@key.stalecast") }
        return UpdateUser(name: name.isEmpty ? id : name, email: email ?? "\(id)@\(issuer).token.stalecast")
    }
}
