package import StalecastHTTP
package import StalecastHub
package import StalecastTemplate
package import StalecastWire

/// The newest version of every scope as `:fetch` serves it. A version is put in before it is announced, so that who
/// hears of it can fetch it.
package final class ServedTemplates: Sendable {
    package struct Project: Sendable {
        package let id: ProjectID
        package let number: UInt64
        package let namespaces: [Namespace]
        /// Server templates may hold what clients should not see, so they are served only where this is true.
        package let servesServerTemplate: Bool

        package init(id: ProjectID, number: UInt64, namespaces: [Namespace], servesServerTemplate: Bool = false) {
            (self.id, self.number) = (id, number)
            (self.namespaces, self.servesServerTemplate) = (namespaces, servesServerTemplate)
        }

        func serves(_ namespace: Namespace) -> Bool {
            servesServerTemplate || TemplateKind(namespace: namespace) == .client
        }
    }

    private let projects: [String: Project]
    /// nil when there are several.
    let onlyProject: Project?
    private let scopes: [Scope: FetchScope]
    /// Scopes by the path of their fetch as clients spell it, with the project's id and with its number.
    private let paths: [Substring: FetchScope]
    /// Scopes by the path of requests for all flags.
    private let flagPaths: [Substring: FetchScope]
    private let cache: FetchScope.Cache
    /// `/openapi.json` of Edge.
    let document: [UInt8]

    /// - Parameters:
    ///   - projects: all there are; a scope outside them is unknown. Server templates are left out unless a project
    ///     says otherwise: they are for servers, which read them from the private listener.
    ///   - elsewhere: scopes whose clients are served elsewhere, with a sentence that says where.
    ///   - version: the daemon's, for `/openapi.json`.
    package init(_ projects: [Project] = [], elsewhere: [Scope: String] = [:], version: String = "0") {
        document = EdgeOperations.document(version: version).encoded(.pretty) + [0x0A]
        let forms = FlagForm.allCases.map { ($0, FetchScope.Cache(maxBytes: 16 << 20)) }
        cache = FetchScope.Cache(forms: Dictionary(uniqueKeysWithValues: forms))
        onlyProject = projects.count == 1 ? projects[0] : nil
        var scopes: [Scope: FetchScope] = [:]
        var paths: [Substring: FetchScope] = [:]
        var flagPaths: [Substring: FetchScope] = [:]
        for project in projects {
            for namespace in project.namespaces where project.serves(namespace) {
                let scope = Scope(project: project.id, namespace: namespace)
                let served = FetchScope(
                    scope, projectNumber: project.number, cache: cache, elsewhere: elsewhere[scope])
                scopes[scope] = served
                for spelling in [project.id.description, String(project.number)] {
                    let path = "/v1/projects/\(spelling)/namespaces/\(namespace)"
                    paths["\(path):fetch"] = served
                    flagPaths["\(path)\(Self.flagsPath)"] = served
                }
                if projects.count == 1, namespace == .firebase { flagPaths[Self.flagsPath[...]] = served }
            }
        }
        (self.scopes, self.paths, self.flagPaths) = (scopes, paths, flagPaths)
        self.projects = projects.reduce(into: [:]) { byName, project in
            byName[project.id.description] = project
            byName[String(project.number)] = project
        }
    }

    /// Makes a version fetchable; returns when every fetch that begins afterwards gets it or a newer one. A scope that
    /// is not served is ignored.
    ///
    /// Call it in the order of sequences, and before the version is announced.
    ///
    /// - Parameter ready: made of `template`; nil makes it here, which takes milliseconds for a large template.
    /// - Returns: what was served before; keep it until the version is announced.
    @discardableResult
    package func install(
        _ template: Template, _ change: TemplateChange, ready: ReadyTemplate? = nil
    ) -> FetchScope.Former? {
        guard let scope = scopes[change.scope] else { return nil }
        let ready = ready ?? ReadyTemplate(template, kind: TemplateKind(namespace: scope.scope.namespace))
        return scope.install(ready, change)
    }

    /// Makes a version fetchable for the first `stages` of a cut. Otherwise like ``install(_:_:ready:)``.
    package func stage(
        _ template: Template, _ change: TemplateChange, _ cut: ReleaseCut, stages: Int, ready: ReadyTemplate? = nil
    ) {
        guard let scope = scopes[change.scope] else { return }
        let template = ready ?? ReadyTemplate(template, kind: TemplateKind(namespace: scope.scope.namespace))
        scope.stage(template, change, cut, stages: stages)
    }

    /// Prepares for a further stage before it is announced; see ``FetchScope/cover(stages:)``.
    package func cover(_ scope: Scope, stages: Int) { scopes[scope]?.cover(stages: stages) }

    // MARK: Finding

    /// The scope of a fetch's path, when the path is spelled as SDKs do.
    package func scope(atPath path: Substring) -> FetchScope? { paths[path] }

    static let flagsPath = "/ofrep/v1/evaluate/flags"

    /// The scope in the path of a request for flags, spelled plainly, and the flag that it is for; nil for all.
    func flags(atPath path: Substring) -> (scope: FetchScope, key: String?)? {
        if let scope = flagPaths[path] { return (scope, nil) }
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), let scope = flagPaths[path[..<slash]] else {
            return nil
        }
        let key = path[slash...].dropFirst()
        return key.isEmpty || key.utf8.contains(UInt8(ascii: "%")) ? nil : (scope, String(key))
    }

    /// - Parameter name: id or number.
    func find(_ name: String) -> Project? { projects[name] }

    package func scope(_ project: String, _ namespace: String) throws(GoogleError) -> FetchScope {
        guard let known = find(project) else { throw .unknownProject }
        for candidate in known.namespaces where candidate.description.utf8.elementsEqual(namespace.utf8) {
            if let scope = scopes[Scope(project: known.id, namespace: candidate)] { return scope }
            throw GoogleError(
                403,
                "the server template of this project is for its servers, which read it from the private "
                    + "listener; serverTemplateOnEdge: true of the project serves it here too")
        }
        throw GoogleError(404, "no such namespace in this project")
    }

    /// Finished answers held now, and their bytes.
    package var renderings: (count: Int, byteCount: Int) { (cache.count, cache.byteCount) }
}
