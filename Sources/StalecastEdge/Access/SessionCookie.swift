import NIOHTTP1
import StalecastAccess
import StalecastHTTP
import StalecastWire

/// The cookie that pages of this site may have in place of a header: it holds their credential, out of their scripts'
/// reach. `__Host-`: of this host alone, over TLS.
enum SessionCookie {
    static let name = "__Host-stalecast"
    /// Lifetime of a credential that does not end.
    private static let life: Int64 = 12 * 3600
    /// Limit of browsers, less name and attributes: they keep 4,096 bytes.
    private static let maxBytes = 3800

    /// Value of the cookie in a request. It comes along with the requests of any page, so it counts only where nothing
    /// is changed, and not for pages of origins that are not listed.
    static func value(in request: FrontRequest, allowedOrigins: [String]) -> String? {
        guard request.head.method == .GET || request.head.method == .HEAD,
            ["/v1/events", "/v1/poll", "/v1/state"].contains(request.path),
            isListed(request, allowedOrigins)
        else { return nil }
        var found: String?
        for field in request.head.headers["cookie"] {
            for pair in field.split(separator: ";") {
                let pair = pair.trimmingBlanks()
                guard pair.hasPrefix(name + "=") else { continue }
                // Two cookies mean that another site has set one.
                if found != nil { return nil }
                found = String(pair.dropFirst(name.utf8.count + 1))
            }
        }
        return found
    }

    /// Whether the page that asks, if it is one, is of a listed origin. `*` lists none.
    static func isListed(_ request: FrontRequest, _ allowedOrigins: [String]) -> Bool {
        let origins = request.head.headers["origin"]
        return origins.isEmpty || origins.count == 1 && origins[0] != "*" && allowedOrigins.contains(origins[0])
    }

    /// The field that sets it.
    ///
    /// - Throws: 400 for what does not belong there, or does not fit.
    static func field(_ text: String, until end: Timestamp?) throws(GoogleError) -> String {
        if text.hasPrefix("\(APIKey.prefix)\(APIKey.Kind.secret.rawValue)_") {
            throw .invalidArgument("a secret key does not belong into a browser; use a token, or a publishable key")
        }
        let isPlain = text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-._".utf8.contains($0) }
        guard isPlain, text.utf8.count <= maxBytes else {
            throw .invalidArgument("a credential of at most \(maxBytes) bytes fits into a cookie")
        }
        let left = end.map { max(0, ($0.microseconds - Timestamp.now().microseconds) / 1_000_000) } ?? life
        return field(value: text, seconds: min(left, life))
    }

    static let ending = field(value: "", seconds: 0)

    private static func field(value: String, seconds: Int64) -> String {
        "Set-Cookie: \(name)=\(value); Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=\(seconds)\r\n"
    }
}
