import StalecastAccess
package import StalecastHTTP
import StalecastWire

/// A line of the private listener's table.
package typealias ControlOperation = Operation<ControlHandler>

/// Function that serves an operation of the private listener.
package struct ControlHandler: Sendable {
    package typealias Run = @Sendable (Call) async throws(GoogleError) -> Answer

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

    /// A line. Without an action of its own it is `read` for what is asked with GET, else `manage`.
    static func operation(
        _ id: String, _ method: String, _ path: String, tag: String, summary: String, parameters: [APIParameter] = [],
        body: APIBody? = nil, answers: [APIAnswer], errors: [Int] = [400, 404], action: AccessAction? = nil,
        access: ControlHandler.Access = .granted, about: ControlHandler.About? = nil, takesTemplate: Bool = false,
        _ run: @escaping ControlHandler.Run
    ) -> ControlOperation {
        var document = APIOperation(
            id, method, PathTemplate(stringLiteral: path), tag: tag, summary: summary, parameters: parameters,
            body: body,
            answers: answers, errors: errors, needsToken: access != .anyone,
            action: access == .anyone ? nil : action ?? (method == "GET" ? .read : .manage))
        if !document.isAnsweredByEdges { document.errors.append(421) }
        let isOfProject = document.path.names.contains("project")
        return Operation(
            document,
            handler: ControlHandler(
                access: access, about: about ?? (isOfProject ? .project : .daemon), takesTemplate: takesTemplate,
                run: run))
    }
}
