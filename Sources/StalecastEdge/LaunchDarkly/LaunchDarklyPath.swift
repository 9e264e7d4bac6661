import StalecastAccess
import StalecastHTTP

/// Path of a LaunchDarkly SDK: what it is for, and which project it names.
///
/// The environment's id, or a mobile SDK's key, is the id or number of a project here; where a key is asked for it
/// follows behind a tilde: `demo~stc_p_…`. With one project the key alone will do.
package struct LaunchDarklyPath: Equatable {
    /// Fixed part of the path: what may be logged. Behind it are keys and contexts.
    package let stem: String
    /// nil for the only project there is.
    package private(set) var project: String?
    package private(set) var key: String?
    /// A mobile SDK, which names its environment in `Authorization`.
    package let isMobile: Bool

    private static let stems = [
        ("/sdk/evalx", false), ("/sdk/goals", false), ("/eval", false), ("/ping", false), ("/events/bulk", false),
        ("/events/diagnostic", false), ("/msdk/evalx", true), ("/meval", true), ("/mping", true), ("/mobile", true),
    ]

    /// nil for every other path.
    ///
    /// - Parameter authorization: the header field.
    package init?(_ path: Substring, authorization: String? = nil) {
        // Streams and fetches of all other clients.
        if path.hasPrefix("/v1/") { return nil }
        let found = Self.stems.first { stem, _ in
            path.hasPrefix(stem) && [nil, UInt8(ascii: "/")].contains(path.utf8.dropFirst(stem.utf8.count).first)
        }
        guard let (stem, isMobile) = found else { return nil }
        (self.stem, self.isMobile) = (stem, isMobile)
        // Older mobile SDKs put `api_key` before it.
        let environment =
            isMobile
            ? authorization?.split(separator: " ").last
            : path.dropFirst(stem.utf8.count + 1).split(separator: "/", omittingEmptySubsequences: false).first
        read(environment.flatMap { PercentEncoding.decode($0) } ?? "")
    }

    private mutating func read(_ environment: String) {
        let tilde = environment.utf8.firstIndex(of: UInt8(ascii: "~"))
        let isKey = tilde == nil && environment.hasPrefix(APIKey.prefix)
        let name = isKey ? "" : environment[..<(tilde ?? environment.endIndex)]
        project = name.isEmpty ? nil : String(name)
        key = isKey ? environment : tilde.map { String(environment[environment.utf8.index(after: $0)...]) }
    }

    /// Whether values are asked for: the answer then is never older than what was announced.
    var isFetch: Bool { stem.hasSuffix("/evalx") }
}

extension Credentials {
    /// Takes the key of an environment in place of what the header fields of these SDKs mean.
    mutating func take(_ path: LaunchDarklyPath) {
        if !path.isMobile {
            if let key = path.key { queryKey = key }
            return
        }
        authorization = nil
        if let key = path.key { apiKey = key }
    }
}
