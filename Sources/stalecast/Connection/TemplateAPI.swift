import StalecastOutbound
import StalecastTemplate
import StalecastWire

/// A template as Control serves it, with the ETag a following publish must match.
struct ServedTemplate: Sendable {
    let etag: String
    /// The whole answer, including its `version` member.
    let json: JSONValue
    /// Whether the version reaches its clients in stages, or would.
    let isStaged: Bool

    init(_ answer: HTTPAnswer) throws(CommandFailure) {
        json = try answer.json()
        guard let etag = answer.fields["etag"], !etag.isEmpty else {
            throw CommandFailure(.refused, "the answer has no ETag; is something else than Stalecast listening there?")
        }
        self.etag = etag
        isStaged = answer.fields["x-stalecast-release"] != nil
    }

    /// The version's number; 0 when the scope has no version yet.
    var version: Int64 { json["version"]?["versionNumber"]?.int64 ?? 0 }

    /// The content, without `version`.
    func template() throws(CommandFailure) -> Template {
        do {
            return try Template(stored: json)
        } catch {
            throw CommandFailure(.refused, "the server's template cannot be read: \(error.message)")
        }
    }
}

struct TemplateAPI: Sendable {
    let client: ControlClient
    let scope: Scope

    var path: String { "/v1/projects/\(scope.project)/namespaces/\(scope.namespace)/remoteConfig" }

    func get(_ version: Int64? = nil) async throws(CommandFailure) -> ServedTemplate {
        let query: RequestQuery = ["versionNumber": version.map { String($0) }]
        return try ServedTemplate(try await client.send("GET", path, query: query))
    }

    /// Publishes, or with `validateOnly` lets the server check and changes nothing.
    ///
    /// - Parameter release: ``StagingOptions/query``.
    func put(
        _ template: JSONValue, ifMatch: String, validateOnly: Bool, isUrgent: Bool = false,
        release: RequestQuery = [:]
    ) async throws(CommandFailure) -> ServedTemplate {
        let query: RequestQuery = ["validateOnly": validateOnly ? "true" : nil]
        return try ServedTemplate(
            try await client.send(
                "PUT", path, query: query + release, ifMatch: ifMatch, headers: isUrgent ? [.urgent] : [],
                body: template, changes: !validateOnly))
    }

    /// Publishes the content of `version` again.
    ///
    /// - Parameter etag: of the version that it replaces; nil replaces whichever is current.
    func rollback(to version: Int64, ifMatch etag: String?) async throws(CommandFailure) -> ServedTemplate {
        let body: JSONValue = ["versionNumber": .string(String(version))]
        return try ServedTemplate(
            try await client.send("POST", path + ":rollback", ifMatch: etag, body: body, changes: true))
    }

    /// Counts of the clients that have the newest version's message now; nil when the daemon cannot say: that is no
    /// reason to fail.
    func reach() async -> PublishCounts? {
        let answer = try? await client.send("GET", path + "/propagation", patience: .seconds(2))
        return (try? answer?.json()).map(PublishCounts.init(json:))  // counts are an extra
    }

    /// Reads what lies under the template, for example `/propagation`.
    func read(
        _ place: String, version: Int64? = nil, _ query: RequestQuery = [:]
    ) async throws(CommandFailure) -> JSONValue {
        let version: RequestQuery = ["versionNumber": version.map { String($0) }]
        return try await client.send("GET", path + place, query: version + query).json()
    }

    /// Hands the events of an endless answer under the template, for example `/propagation:watch`, to `take`, until that
    /// returns false.
    ///
    /// - Throws: ``CommandFailure`` when it is refused, ``OutboundFailure`` when the connection breaks.
    func events(
        _ place: String, _ query: RequestQuery = [:], _ take: (_ type: String, JSONValue) throws -> Bool
    ) async throws {
        var parser = SSEParser(lastEventID: "")
        try await client.stream("GET", path + place, query) { bytes in
            for case .event(let event) in try parser.receive(bytes) {
                if try !take(event.type, try JSONValue.parse(event.data.utf8)) { return false }
            }
            return true
        }
    }

    /// Metadata of the versions, newest first.
    func versions(
        from newest: Int64? = nil, limit: Int = .max
    ) async throws(CommandFailure) -> (items: [JSONValue], hasMore: Bool) {
        let query: RequestQuery = ["endVersionNumber": newest.map { String($0) }]
        return try await client.list("versions", path + ":listVersions", query, limit: limit, pageSize: 300)
    }
}

extension OutboundHeader {
    /// Clients are to fetch at once.
    static let urgent = OutboundHeader(trusted: "X-Stalecast-Urgent", "true")
}
