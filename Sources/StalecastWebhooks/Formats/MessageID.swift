package import StalecastWire

/// The `webhook-id` of a message: `msg_` and base32. A function of what the message is about, so that every attempt
/// for it carries the same one, after a restart too, and a newer version never carries that of an older.
package enum MessageID {
    private static let prefix = "msg_"
    private static let length = 32

    /// The message about a version of a scope.
    package static func of(_ version: VersionNumber, of scope: Scope, epoch: Epoch) -> String {
        prefix
            + Base32.token(
                of: "stalecast/version", epoch.description, scope.description, String(version), length: length)
    }

    /// A message that is not about a version; `nonce` tells it from others of its kind.
    package static func of(_ kind: String, nonce: String) -> String {
        prefix + Base32.token(of: "stalecast/\(kind)", nonce, length: length)
    }
}
