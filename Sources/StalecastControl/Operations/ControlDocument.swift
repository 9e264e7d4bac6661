import StalecastHTTP
package import StalecastWire

/// `/openapi.json` of the private listener.
package enum ControlDocument {
    /// The document, written from ``ControlOperations/table``.
    ///
    /// - Parameter version: the daemon's.
    package static func json(version: String) -> JSONValue {
        APIDocument(
            title: "Stalecast Control", version: version, description: description,
            operations: ControlOperations.table.operations.map(\.document), schemas: schemas,
            commonErrors: [405, 408, 413, 431, 501, 503]
        ).json
    }

    private static var schemas: JSONObject {
        var merged = JSONObject()
        for part in ControlOperations.schemas {
            for (name, schema) in part.members { merged[name] = schema }
        }
        return merged
    }

    private static let description = """
        The private listener: templates as Firebase Remote Config's REST API has them, topics, figures. Send \
        `Authorization: Bearer <control token>`; the daemon wrote the token to control.token in its data directory. A key \
        of `/v1/keys` in its place may do what it is granted; `x-stalecast-action` says what an operation asks for. \
        Errors have Google's envelope: a word for programs and a sentence that says what to do. 503 means that nothing \
        was done, 500 and 504 that the outcome is unknown. Bodies may be gzip. GET answers HEAD as well.
        """
}
