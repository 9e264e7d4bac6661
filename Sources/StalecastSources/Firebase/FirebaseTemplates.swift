import Foundation
package import StalecastOutbound
package import StalecastWire

/// The templates of one scope at Firebase, or at anything that speaks its REST API, another Stalecast's Control
/// included.
package struct FirebaseTemplates: Sendable {
    private let list: OutboundURL
    private let template: OutboundURL
    private let access: OriginAccess

    /// Google's host.
    package static let defaultBase = "https://firebaseremoteconfig.googleapis.com"
    /// OAuth scope of a service account's token.
    package static let oauthScope = "https://www.googleapis.com/auth/firebase.remoteconfig"
    /// Versions in one answer, and answers at most: Firebase keeps 300 versions.
    private static let pageSize = 300
    private static let maxPages = 100

    /// A template as the origin shows it.
    package struct Document: Sendable {
        package let json: JSONValue
        /// nil when the template has no version.
        package let metadata: VersionMetadata?
        let etag: String?
    }

    /// - Parameters:
    ///   - base: scheme, host and port, perhaps a path; without a final slash.
    ///   - project: the origin's id or number.
    ///   - namespace: the origin's; `firebase` is asked for by the paths that are documented.
    /// - Throws: ``OutboundURL/Invalid`` for a base that is no URL.
    package init(
        base: String, project: String, namespace: Namespace, access: OriginAccess
    ) throws(OutboundURL.Invalid) {
        let scope = namespace == .firebase ? "" : "/namespaces/\(namespace)"
        let prefix = "\(base)/v1/projects/\(project)\(scope)/remoteConfig"
        list = try OutboundURL("\(prefix):listVersions")
        template = try OutboundURL(prefix)
        self.access = access
    }

    package var place: String { template.withoutQuery }

    /// The number of the newest version; 0 for a project without versions. One short request.
    func newest() async throws(OriginProblem) -> VersionNumber {
        try Self.metadata(try await page("pageSize=1"), atMost: 1).first?.number ?? 0
    }

    /// Everything said about the listed versions, oldest first.
    package func versions() async throws(OriginProblem) -> [VersionMetadata] {
        var versions: [VersionMetadata] = []
        var query = "pageSize=\(Self.pageSize)"
        for _ in 0..<Self.maxPages {
            let page = try await page(query)
            versions += try Self.metadata(page, atMost: .max)
            guard let token = page["nextPageToken"]?.string, !token.isEmpty else {
                return versions.sorted { $0.number < $1.number }
            }
            // Page tokens are any text: `+`, `&` and `=` would mean something else in a query.
            let encoded = token.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            query = "pageSize=\(Self.pageSize)&pageToken=\(encoded)"
        }
        throw Self.invalid("the list of versions does not end")
    }

    /// - Parameter version: nil for the active template.
    package func document(_ version: VersionNumber? = nil) async throws(OriginProblem) -> Document {
        var place = template
        if let version { place = try url(template, "versionNumber=\(version)") }
        let answer = try await access.answer("GET", place)
        let json = try Self.json(answer)
        return Document(
            json: json, metadata: try VersionMetadata.firebase(json["version"], seenAt: .now()),
            etag: answer.headers["etag"])
    }

    private func page(_ query: String) async throws(OriginProblem) -> JSONValue {
        let json = try Self.json(try await access.answer("GET", try url(list, query)))
        guard json.object != nil else { throw Self.invalid("the list of versions is \(json.kind)") }
        return json
    }

    private static func metadata(_ page: JSONValue, atMost count: Int) throws(OriginProblem) -> [VersionMetadata] {
        try (page["versions"]?.array ?? []).prefix(count).map { entry throws(OriginProblem) in
            if let version = try VersionMetadata.firebase(entry, seenAt: .now()) { return version }
            throw invalid("the list of versions has an entry without versionNumber")
        }
    }

    private func url(_ base: OutboundURL, _ query: String) throws(OriginProblem) -> OutboundURL {
        do { return try OutboundURL("\(base.text)?\(query)") } catch {
            throw Self.invalid("the origin's \(query.prefix(100)) makes no URL: it \(error)")
        }
    }

    private static func json(_ answer: OriginAccess.Answer) throws(OriginProblem) -> JSONValue {
        guard answer.status == 200 else {
            throw OriginProblem(.unexpectedStatus, "the origin answers \(answer.status); 200 is expected")
        }
        do { return try JSONValue.parse(answer.body) } catch {
            throw invalid("the origin's answer is not JSON: \(error.description)")
        }
    }

    static func invalid(_ sentence: String) -> OriginProblem { OriginProblem(.invalidContent, sentence) }
}
