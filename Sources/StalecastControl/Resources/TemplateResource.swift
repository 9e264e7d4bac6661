import StalecastHTTP
import StalecastStore
import StalecastTemplate
import StalecastWire

/// One scope's template; an extension per group of requests.
struct TemplateResource: Sendable {
    let scope: Scope
    let store: TemplateStore
    let configuration: ControlConfiguration

    /// Number of the project, as it stands in ETags.
    var projectNumber: UInt64 { store.projects.number(of: scope.project) ?? 0 }

    /// ETag of the scope at `version`; 0 for a scope without versions, and in answers to `validateOnly`.
    func etag(_ version: VersionNumber) -> String { TemplateETag.of(project: projectNumber, version: version) }

    /// Runs something in the store and turns its error into Google's.
    func store<Value>(
        commits: Bool = false, _ work: @autoclosure () async throws(StoreError) -> Value
    ) async throws(GoogleError) -> Value {
        do { return try await work() } catch {
            let mapping = OutcomeMapping(staleETagStatus: configuration.settings.staleETagStatus)
            throw mapping.answer(to: error, commits: commits, projectNumber: projectNumber)
        }
    }

    /// A stored version as `RemoteConfig`. Its content is sent as it was committed, `version` spliced in at the end.
    func answer(_ version: StoredVersion, pretty: Bool) -> Answer {
        var answer = plain(version, pretty: pretty)
        if let release = store.release(of: scope), release.isOpen, release.version == version.version {
            answer.add(release)
        }
        return answer
    }

    private func plain(_ version: StoredVersion, pretty: Bool) -> Answer {
        if pretty {
            return answer(version.template.json, version: version.metadata.json, etag: version.etag, pretty: true)
        }
        var body = version.content
        precondition(body.last == UInt8(ascii: "}"), "a stored template is a JSON object")
        body.removeLast()
        body += ",\"version\":".utf8
        body += version.metadata.json.encoded(.utf8Line)
        body.append(UInt8(ascii: "}"))
        return answer(body, etag: version.etag)
    }

    /// A template that is not stored.
    func answer(_ template: JSONValue, version: JSONValue?, etag: String, pretty: Bool) -> Answer {
        var object = template.object ?? JSONObject()
        object["version"] = version
        return answer(JSONValue.object(object).encoded(pretty ? .pretty : .utf8Line), etag: etag)
    }

    private func answer(_ body: [UInt8], etag: String) -> Answer {
        var answer = Answer(contentType: Answer.jsonType, body: body)
        answer.add("ETag", etag)
        return answer
    }
}

extension Answer {
    /// Says in a header field that a version reaches its clients in stages: SDKs pass over it, and they refuse members
    /// that they do not know.
    mutating func add(_ release: Release) { add(state: release.state, told: release.told) }

    mutating func add(state: Release.State, told: Int) {
        add("X-Stalecast-Release", "\(state.rawValue); percent=\(Percentage.text(told).dropLast())")
    }
}

extension JSONStyle {
    /// One line, UTF-8 as is.
    static let utf8Line = JSONStyle(asciiOnly: false)
}
