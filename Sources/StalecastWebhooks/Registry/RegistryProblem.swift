/// Refusal or failure of the registry; the sentence is for the caller.
package enum RegistryProblem: Error, Hashable, CustomStringConvertible {
    /// A field of the request is wrong; `field` is its path, for example `limits.timeout`.
    case invalid(field: String, String)
    case notFound(String)
    /// The webhook has changed since its etag was read.
    case changedMeanwhile
    /// The webhook comes from the configuration file and is changed there.
    case configured(name: String)
    /// The operation makes no sense in its present state or format.
    case notNow(String)
    case tooMany(limit: Int)
    /// The database failed; `cause` is for the log.
    case storage(cause: String)
    /// The records that all nodes share cannot be changed now; the change may still have been made.
    case away(cause: String)
    /// Only another node of the cluster can say, and it does not; a sentence that names it.
    case elsewhere(String)

    /// The registry's own problem, or one of its database.
    init(_ error: any Error) {
        self = error as? RegistryProblem ?? .storage(cause: error.databaseWords)
    }

    package var description: String {
        switch self {
        case .invalid(let field, let sentence): "\(field): \(sentence)"
        case .notFound(let id): "there is no webhook \(id) in this project"
        case .changedMeanwhile: "the webhook was changed since this etag was read; read it again"
        case .configured(let name):
            "webhook \(name) comes from the configuration file; change it there and send SIGHUP to the daemon"
        case .notNow(let sentence), .elsewhere(let sentence): sentence
        case .tooMany(let limit): "the project has \(limit) webhooks, which is the limit (webhooks.maxPerProject)"
        case .away: "the cluster's etcd did not answer; ask again, and look at the webhook before you repeat a change"
        case .storage: "the webhook database could not be read or written; the daemon's log says why"
        }
    }
}
