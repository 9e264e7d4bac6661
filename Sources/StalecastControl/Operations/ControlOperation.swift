package import StalecastHTTP
import StalecastWire

/// A line of the private listener's table.
package typealias ControlOperation = Operation<ControlHandler>

/// What serves an operation of the private listener.
package struct ControlHandler: Sendable {
    package typealias Run = @Sendable (Call) async throws(GoogleError) -> Answer

    /// Who may call it beside the bearer of the control token.
    package enum Access: Sendable {
        case token, anyone
        /// Anyone, if the configuration says so.
        case metrics
        /// Whoever a source's own credentials admit.
        case trigger
    }

    package let access: Access
    /// The body is a template, which may be larger than others.
    let takesTemplate: Bool
    let run: Run
}

/// Everything this listener serves. A resource adds its lines here and describes them in a file of its own.
package enum ControlOperations {
    package static let table = OperationTable(templates + serving + webhooks + triggers + daemon)

    /// The schemas that `$ref`s name.
    static let schemas: [JSONObject] = [
        templateSchemas, servingSchemas, webhookSchemas, triggerSchemas, daemonSchemas,
    ]

    static func operation(
        _ document: APIOperation, access: ControlHandler.Access = .token, takesTemplate: Bool = false,
        _ run: @escaping ControlHandler.Run
    ) -> ControlOperation {
        var document = document
        document.needsToken = access != .anyone
        return Operation(document, handler: ControlHandler(access: access, takesTemplate: takesTemplate, run: run))
    }
}
