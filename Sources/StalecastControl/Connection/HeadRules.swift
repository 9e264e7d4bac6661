import NIOHTTP1

/// What a request head must be beyond what the parser checks: nothing that two servers could read differently.
enum HeadRules {
    /// nil when the head is fine.
    static func refusal(of head: HTTPRequestHead) -> GoogleError? {
        guard head.version == .http1_1 || head.version == .http1_0 else {
            return GoogleError(505, "INVALID_ARGUMENT", "This server speaks HTTP/1.1.").closing()
        }
        return hostRefusal(head) ?? framingRefusal(head) ?? targetRefusal(head)
    }

    private static func hostRefusal(_ head: HTTPRequestHead) -> GoogleError? {
        let hosts = head.headers[canonicalForm: "host"]
        if hosts.count > 1 { return .malformed("A request has one Host header, not \(hosts.count).") }
        if hosts.isEmpty, head.version == .http1_1 { return .malformed("An HTTP/1.1 request needs a Host header.") }
        return nil
    }

    private static func framingRefusal(_ head: HTTPRequestHead) -> GoogleError? {
        let lengths = head.headers[canonicalForm: "content-length"]
        let encodings = head.headers[canonicalForm: "transfer-encoding"]
        if lengths.count > 1 { return .malformed("A request has one Content-Length at most.") }
        guard !encodings.isEmpty else { return nil }
        if !lengths.isEmpty { return .malformed("A request has Content-Length or Transfer-Encoding, not both.") }
        guard head.version == .http1_1, encodings.count == 1, encodings[0].lowercased() == "chunked" else {
            return .malformed("The only Transfer-Encoding this server understands is chunked, in HTTP/1.1.")
        }
        return nil
    }

    private static func targetRefusal(_ head: HTTPRequestHead) -> GoogleError? {
        if head.method == .CONNECT { return GoogleError.methodNotAllowed(["GET", "PUT", "POST"]).closing() }
        let target = head.uri.utf8
        guard target.first == UInt8(ascii: "/") || target.starts(with: "http".utf8) || head.uri == "*" else {
            return .malformed("The request's target must begin with a slash.")
        }
        guard target.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            return .malformed("The request's target must be percent-encoded ASCII.")
        }
        return nil
    }
}
