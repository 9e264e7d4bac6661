import StalecastAccess
package import StalecastHTTP
import StalecastWire

/// A line of the private listener's table.
package typealias ControlOperation = Operation<ControlHandler>

/// Function that serves an operation of the private listener.
package struct ControlHandler: Sendable {
    /// Function that answers. A method of the template is called on that of the path's scope.
    enum Run: Sendable {
        case call(@Sendable (Call) -> () async throws(GoogleError) -> Answer)
        case template(TemplateMethod)
        /// Refused where the versions come from a source.
        case publishing(TemplateMethod)
        case closure(@Sendable (Call) async throws(GoogleError) -> Answer)

        typealias TemplateMethod = @Sendable (TemplateResource) -> (Call) async throws(GoogleError) -> Answer
    }

    /// Callers that are admitted beside principals with a grant.
    package enum Access: Sendable {
        case granted, anyone
        /// Anyone, if the configuration says so.
        case metrics
        /// Callers that a source's own credentials admit.
        case trigger
    }

    /// Object of the operation; the grants must permit it there.
    enum About: Sendable {
        /// A document of the daemon, not data of a project.
        case document
        /// All projects.
        case daemon
        /// All namespaces of the path's project.
        case project
        /// The path's namespace, or this one; `firebase` when neither is there.
        case template(namespace: String?)
    }

    package let access: Access
    let about: About
    /// The body is a template, which may be larger than others.
    let takesTemplate: Bool
    let run: Run

    func serve(_ call: Call) async throws(GoogleError) -> Answer {
        switch run {
        case .call(let method): return try await method(call)()
        case .template(let method):
            var namespace: String?
            if case .template(let fixed) = about { namespace = fixed }
            return try await method(call.template(namespace: namespace))(call)
        case .publishing(let method): return try await method(call.publishableTemplate())(call)
        case .closure(let body): return try await body(call)
        }
    }
}

/// Everything this listener serves. A resource adds its lines here and describes them in a file of its own.
package enum ControlOperations {
    package static let table = OperationTable(
        templates + serving + webhooks + triggers + keys + daemon + backups + cluster + console)

    /// The schemas that `$ref`s name.
    static let schemas: [JSONObject] = [
        templateSchemas, proposalSchemas, releaseSchemas, propagationSchemas, servingSchemas, webhookSchemas,
        triggerSchemas, keySchemas, daemonSchemas, clusterSchemas, consoleSchemas,
    ]

    // MARK: Schemas of single values

    static let text: JSONValue = ["type": "string"]
    static let moment: JSONValue = ["type": "string", "format": "date-time"]
    static let flag: JSONValue = ["type": "boolean"]
    static let integer: JSONValue = ["type": "integer"]
    static let number: JSONValue = ["type": "number"]
    static let anyObject: JSONValue = ["type": "object"]

    /// One page of a list.
    static func page(_ name: String, of schema: String) -> JSONValue {
        .objectSchema([name: .listSchema(.schema(schema)), "nextPageToken": text], required: [name])
    }

    // MARK: Parameters of several lines

    /// - Parameter least: 0 where 0 means the default.
    static func pageSize(_ words: String, from least: Int = 1, to most: Int64 = .max) -> APIParameter {
        .query("pageSize", words, schema: ["type": "integer", "minimum": .int(least), "maximum": .int(most)])
    }

    /// Token that is a number.
    static let pageToken = APIParameter.query(
        "pageToken", "The page before's `nextPageToken`.", schema: ["type": "string", "pattern": "^[1-9][0-9]{0,17}$"])

    /// A line. Without an action of its own it is `read` for what is asked with GET, else `manage`. A method of the
    /// template is about the template.
    static func operation(
        _ id: String, _ method: String, _ path: String, tag: String, summary: String, parameters: [APIParameter] = [],
        body: APIBody? = nil, answers: [APIAnswer], errors: [Int] = [400, 404], action: AccessAction? = nil,
        access: ControlHandler.Access = .granted, about: ControlHandler.About? = nil, takesTemplate: Bool = false,
        _ run: ControlHandler.Run
    ) -> ControlOperation {
        var document = APIOperation(
            id, method, PathTemplate(stringLiteral: path), tag: tag, summary: summary, parameters: parameters,
            body: body, answers: answers, errors: errors, needsToken: access != .anyone,
            action: access == .anyone ? nil : action ?? (method == "GET" ? .read : .manage))
        if !document.isAnsweredByEdges { document.errors.append(421) }
        let usual: ControlHandler.About =
            switch run {
            case .template, .publishing: template
            default: document.path.names.contains("project") ? .project : .daemon
            }
        return Operation(
            document,
            handler: ControlHandler(access: access, about: about ?? usual, takesTemplate: takesTemplate, run: run))
    }
}
