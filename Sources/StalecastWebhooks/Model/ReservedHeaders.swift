import StalecastOutbound
import StalecastWire

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
    /// Bytes of a name and of a value.
    package static let maxNameBytes = 128
    package static let maxValueBytes = 4096

    /// - Parameter name: in any case.
    package static func contains(_ name: String) -> Bool {
        let name = name.lowercased()
        return names.contains(name) || prefixes.contains { name.hasPrefix($0) }
    }

    /// Problem of a header; nil when it has none. The sentence does not repeat the value.
    package static func problem(name: String, value: String) -> String? {
        let isToken = name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "!#$%&'*+-.^_`|~".utf8.contains($0) }
        guard isToken, (1...maxNameBytes).contains(name.utf8.count) else {
            return "a header name has 1 to \(maxNameBytes) letters, digits and characters of !#$%&'*+-.^_`|~"
        }
        if contains(name) { return "the header \(name) is set by the daemon itself" }
        if value.utf8.contains(where: { $0 == 0x0D || $0 == 0x0A || $0 == 0 }) {
            return "a header value cannot contain CR, LF or NUL"
        }
        guard value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }), value.utf8.count <= maxValueBytes
        else {
            return "a header value has at most \(maxValueBytes) bytes and no control characters"
        }
        return nil
    }

    /// Whether a header's value is likely to be a credential, which is not shown again.
    package static func isSecret(_ name: String) -> Bool {
        let name = name.lowercased()
        return ["authorization", "cookie", "token", "secret", "key", "password", "credential"].contains {
            name.contains($0)
        }
    }
}
