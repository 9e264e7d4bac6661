/// Header names a webhook's owner cannot set: those of the connection, and those that say what a request is.
package enum ReservedHeaders {
    /// Lower case.
    private static let names: Set<String> = [
        "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive",
        "te", "trailer", "upgrade", "expect", "user-agent", "accept-encoding", "webhook-id", "webhook-timestamp",
        "webhook-signature", "webhook-request-origin", "webhook-request-callback", "webhook-request-rate",
    ]
    private static let prefixes = ["proxy-", "ce-"]

    package static let maxCount = 32

    /// - Parameter name: in any case.
    package static func contains(_ name: String) -> Bool {
        let name = name.lowercased()
        return names.contains(name) || prefixes.contains { name.hasPrefix($0) }
    }

    /// Whether a header's value is likely to be a credential, which is not shown again.
    package static func isSecret(_ name: String) -> Bool {
        let name = name.lowercased()
        return ["authorization", "cookie", "token", "secret", "key", "password", "credential"].contains {
            name.contains($0)
        }
    }
}
