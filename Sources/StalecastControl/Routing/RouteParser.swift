import StalecastWire

/// Finds a request's line in ``ControlOperation/all``. Firebase's `:verb` belongs to the last segment and may be spelled
/// `%3A`; a segment is split off before it is decoded, so `%2F` never makes a new one.
package enum RouteParser {
    /// - Parameters:
    ///   - method: in capitals. `HEAD` finds what `GET` finds.
    ///   - path: the target without its query, still percent-encoded.
    package static func route(method: String, path: String) throws(RouteError) -> Route {
        let candidates = candidates(try segments(of: path))
        guard !candidates.isEmpty else { throw .notFound }
        let wanted = method == "HEAD" ? "GET" : method
        if let match = candidates.first(where: { $0.method == wanted }) { return match.route }
        throw .methodNotAllowed(allow: candidates.flatMap { $0.method == "GET" ? ["GET", "HEAD"] : [$0.method] })
    }

    private typealias Candidate = (method: String, route: Route)

    private static func segments(of path: String) throws(RouteError) -> [String] {
        guard path.utf8.first == UInt8(ascii: "/") else { throw .notFound }
        var segments: [String] = []
        for raw in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            guard let decoded = PercentEncoding.decode(raw), !decoded.utf8.contains(0) else { throw .malformed }
            segments.append(decoded)
        }
        return segments
    }

    /// Every method of the path that fits best: `webhooks/{webhook}:test` rather than `webhooks/{webhook}`.
    private static func candidates(_ segments: [String]) -> [Candidate] {
        var found: [Candidate] = []
        var fit = 0
        for line in ControlOperation.all {
            let path = line.operation.path
            guard path.literalBytes >= fit, let values = path.match(segments) else { continue }
            if path.literalBytes > fit {
                fit = path.literalBytes
                found = []
            }
            found.append((line.operation.method, line.makeRoute(PathValues(values))))
        }
        return found
    }
}
