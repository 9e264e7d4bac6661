package import StalecastWire

/// What Control asks of the webhooks of one project. Ids are as spelled in the path, documents as in the body.
package enum WebhookCommand: Sendable, Hashable {
    /// The answer has `webhooks` and, when there are more, `nextPageToken`.
    case list(Page)
    case create(JSONValue)
    case get(String)
    /// - `mask`: paths to set; nil sets what the document has.
    /// - `etag`: refuses when it is not the webhook's; nil does not ask.
    case update(String, JSONValue, mask: [String]?, etag: String?)
    case delete(String, etag: String?)
    case act(String, WebhookAction, JSONValue)
    case attempts(String, Page)
    case deadLetters(String, Page)

    /// Which part of a list.
    package struct Page: Sendable, Hashable {
        /// 1 to 1,000.
        package let size: Int
        /// What the page before gave as `nextPageToken`; nil is the first page.
        package let token: String?

        package init(size: Int, token: String?) {
            self.size = size
            self.token = token
        }
    }
}

/// Why a command on webhooks was refused.
package enum WebhookRefusal: Error, Sendable, Hashable {
    /// A field of the request is wrong.
    case invalid(field: String, String)
    case notFound(String)
    /// The etag is no longer the webhook's.
    case changedMeanwhile(String)
    /// Its present state forbids it.
    case notNow(String)
    case tooMany(String)
    /// Nothing was done; the log says why.
    case unavailable(String)

    var answer: GoogleError {
        switch self {
        case .invalid(let field, let sentence): .invalidField(field, "\(field): \(sentence)")
        case .notFound(let sentence): .notFound("Requested entity was not found: \(sentence).")
        case .changedMeanwhile(let sentence): GoogleError(409, "ABORTED", Self.sentence(sentence))
        case .notNow(let sentence): GoogleError(400, "FAILED_PRECONDITION", Self.sentence(sentence))
        case .tooMany(let sentence): GoogleError(429, "RESOURCE_EXHAUSTED", Self.sentence(sentence))
        case .unavailable(let sentence):
            GoogleError(503, "UNAVAILABLE", Self.sentence(sentence)).with("Retry-After", "5")
        }
    }

    private static func sentence(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() + "." }
}
