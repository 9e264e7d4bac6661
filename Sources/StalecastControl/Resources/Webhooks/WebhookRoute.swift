/// What is asked of a project's webhooks, as far as the path tells it. Ids are still as spelled.
package enum WebhookRoute: Hashable, Sendable {
    case list
    case create
    case get(String)
    case update(String)
    case delete(String)
    case act(String, WebhookAction)
    case attempts(String)
    case deadLetters(String)

    /// The route's name in metrics.
    var label: String {
        switch self {
        case .list: "list_webhooks"
        case .create: "create_webhook"
        case .get: "get_webhook"
        case .update: "update_webhook"
        case .delete: "delete_webhook"
        case .act(_, let action): "webhook_\(action.label)"
        case .attempts: "webhook_attempts"
        case .deadLetters: "webhook_dead_letters"
        }
    }
}

/// A verb on one webhook; raw values are those of the path.
package enum WebhookAction: String, Hashable, Sendable, CaseIterable {
    /// Sends nothing more until it is resumed; what is owed stays owed.
    case pause
    case resume
    /// Ends the daemon's own disabling.
    case enable
    /// Asks the receiver for its consent again, now.
    case verify
    /// Sends a test message now and tells how it went.
    case test
    /// A new secret, shown in the answer.
    case rotateSecret
    /// Sends a version once more.
    case redeliver
    /// Owes again what was published since a time.
    case recover
    /// Takes dead letters up again.
    case redrive

    var label: String {
        switch self {
        case .rotateSecret: "rotate_secret"
        default: rawValue
        }
    }
}
