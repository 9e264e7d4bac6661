import StalecastOutbound
import StalecastWire

/// What an origin said about the identity of its document, to be shown again in a conditional GET.
struct HTTPValidators: Sendable, Hashable {
    private var etag: String?
    private var lastModified: String?

    /// Nothing is known: the next GET is unconditional.
    static let none = HTTPValidators()

    /// Longer ETags are not sent back.
    private static let maxBytes = 1024

    private init() {}

    /// - Parameter headers: an answer's, by lower-case name.
    ///
    /// Times count in seconds, and nginx makes its ETags of them: what was changed within the second before it was read
    /// may change again and look the same. Such validators are not kept, so the next GET is unconditional.
    init(headers: [String: String]) {
        if Self.changedJustNow(headers) { return }
        etag = headers["etag"].flatMap { $0.utf8.count <= Self.maxBytes && !$0.isEmpty ? $0 : nil }
        lastModified = headers["last-modified"].flatMap { HTTPDate.timestamp($0) == nil ? nil : $0 }
    }

    private static func changedJustNow(_ headers: [String: String]) -> Bool {
        guard let changed = headers["last-modified"].flatMap(HTTPDate.timestamp),
            let answered = headers["date"].flatMap(HTTPDate.timestamp)
        else { return false }
        return answered.microseconds - changed.microseconds < 2_000_000
    }

    var isEmpty: Bool { etag == nil && lastModified == nil }

    /// `If-None-Match`, and `If-Modified-Since` for servers that know nothing else.
    var headers: [OutboundHeader] {
        var headers: [OutboundHeader] = []
        if let etag, let header = try? OutboundHeader("If-None-Match", etag) {  // an odd ETag is not sent back
            headers.append(header)
        }
        if let lastModified { headers.append(OutboundHeader(trusted: "If-Modified-Since", lastModified)) }
        return headers
    }
}
