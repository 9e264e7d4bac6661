/// Reads a request's path. Firebase's `:verb` belongs to the last segment and may be spelled `%3A`; a segment is split
/// off before it is decoded, so `%2F` never makes a new one.
package enum RouteParser {
    /// - Parameters:
    ///   - method: in capitals. `HEAD` finds what `GET` finds.
    ///   - path: the target without its query, still percent-encoded.
    package static func route(method: String, path: String) throws(RouteError) -> Route {
        let candidates = try candidates(segments(of: path))
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

    private static func candidates(_ segments: [String]) throws(RouteError) -> [Candidate] {
        switch segments.count {
        case 1: return root(segments[0])
        case 4 where segments[0] == "v1" && segments[1] == "projects":
            return inProject(segments[2], segments[3])
        case 6 where segments[0] == "v1" && segments[1] == "projects" && segments[3] == "namespaces":
            return template(ScopeSpelling(project: segments[2], namespace: segments[4]), segments[5])
        default: return []
        }
    }

    private static func root(_ segment: String) -> [Candidate] {
        switch segment {
        case "status": [("GET", .status)]
        case "metrics": [("GET", .metrics)]
        case "healthz": [("GET", .health)]
        case "readyz": [("GET", .readiness)]
        default: []
        }
    }

    private static func inProject(_ project: String, _ last: String) -> [Candidate] {
        switch last {
        case "messages:send": [("POST", .sendMessage(project: project))]
        case "topics": [("GET", .topics(project: project))]
        default: template(ScopeSpelling(project: project), last)
        }
    }

    private static func template(_ scope: ScopeSpelling, _ last: String) -> [Candidate] {
        switch last {
        case "remoteConfig": [("GET", .template(scope, .get)), ("PUT", .template(scope, .publish))]
        case "remoteConfig:listVersions": [("GET", .template(scope, .listVersions))]
        case "remoteConfig:rollback": [("POST", .template(scope, .rollback))]
        case "remoteConfig:downloadDefaults": [("GET", .template(scope, .downloadDefaults))]
        case "remoteConfig:evaluate": [("POST", .template(scope, .evaluate))]
        case "serverRemoteConfig" where scope.namespace == "firebase-server":
            [("GET", .template(scope, .serverTemplate))]
        default: []
        }
    }
}
