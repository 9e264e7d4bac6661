package import StalecastWire

/// A request to a project's `triggers`.
package struct TriggerPost: Sendable {
    /// nil when the path names no project that is served.
    package var project: ProjectID?
    /// By lower-case name.
    package var headers: [String: String]
    /// The query's `token`.
    package var token: String?
    /// The query's `namespace`; nil means all of the project.
    package var namespace: String?
    /// Whether the sender showed Control's own token, which may do everything.
    package var isOperator: Bool

    package init(
        project: ProjectID?, headers: [String: String], token: String? = nil, namespace: String? = nil,
        isOperator: Bool
    ) {
        self.project = project
        self.headers = headers
        self.token = token
        self.namespace = namespace
        self.isOperator = isOperator
    }

    /// What may be a trigger token: the query's, else that of `Authorization`.
    var offeredToken: String? {
        if let token { return token }
        let words = (headers["authorization"] ?? "").split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
        return String(words[1])
    }
}

/// How a ``TriggerPost`` ends.
package enum TriggerOutcome: Sendable, Hashable {
    /// One verdict per event, in order.
    case taken([TriggerVerdict])
    /// Too many strangers' posts are being judged already; nothing was looked at.
    case busy
    /// No credential that is good here: said in the same words whatever is wrong, existing or not.
    case unauthenticated
    /// The sender showed Control's token, and there is nothing to trigger; the sentence says what there is.
    case notFound(String)
    case malformed(EventProblem)
}

/// What became of one event.
package struct TriggerVerdict: Sendable, Hashable {
    /// Raw values are the words on the wire and in metrics.
    package enum Result: String, Sendable, Hashable, CaseIterable {
        /// Sources look now.
        case looking
        /// The event was taken before.
        case duplicate
        /// The version was adopted before.
        case known
        /// The event is about another project or namespace.
        case ignored
    }

    package let event: SourceEvent
    package let result: Result
    /// The scopes that look; empty unless ``Result/looking``.
    package let scopes: [Scope]

    /// `{"form","id","result","scopes"}`, the id only when there is one.
    package var json: JSONValue {
        var object: JSONObject = ["form": .string(event.form.rawValue)]
        object["id"] = event.id.map(JSONValue.string)
        object["result"] = .string(result.rawValue)
        object["scopes"] = .array(scopes.map { .string($0.description) })
        return .object(object)
    }
}
