import StalecastHTTP
import StalecastStore
import StalecastTemplate
import StalecastWire

extension TemplateResource {
    /// `GET remoteConfig`: the current version, or the one `versionNumber` names. A scope without versions answers with
    /// explicit empty collections and version 0 in its ETag. `If-None-Match` is ignored, as undocumented.
    func get(_ call: Call) async throws(GoogleError) -> Answer {
        let wanted = try call.query.versionNumber("versionNumber")
        return try await read(wanted, call) { version in
            guard let version else {
                return answer(Template.empty.json, version: nil, etag: etag(0), pretty: call.wantsPretty)
            }
            return answer(version, pretty: call.wantsPretty)
        }
    }

    /// `GET remoteConfig:downloadDefaults?format=XML|PLIST|JSON`, as a file; `versionNumber` as with GET.
    func downloadDefaults(_ call: Call) async throws(GoogleError) -> Answer {
        guard let format = DefaultsFormat(rawValue: (call.query["format"] ?? "").uppercased()) else {
            let formats = DefaultsFormat.allCases.map(\.rawValue).joined(separator: ", ")
            throw .invalidField("format", "format must be one of \(formats)")
        }
        return try await read(try call.query.versionNumber("versionNumber"), call) { version in
            let file = (version?.template ?? .empty).defaultsFile(format)
            var answer = Answer(contentType: format.contentType, body: file)
            let name = "remote_config_defaults.\(format.rawValue.lowercased())"
            answer.add("ETag", version?.etag ?? etag(0))
            answer.add("Content-Disposition", "attachment; filename=\"\(name)\"")
            return answer
        }
    }

    /// Answers from the version that is named, whose content never changes, or else from the newest.
    ///
    /// - Parameter answer: takes nil when the scope has no version yet and none is asked for.
    func read(
        _ wanted: VersionNumber?, _ call: Call, _ answer: (StoredVersion?) async throws(GoogleError) -> Answer
    ) async throws(GoogleError) -> Answer {
        if wanted != nil { return try await answer(try await version(wanted)) }
        return try await call.fromNewest { () async throws(GoogleError) in try await answer(try await version(nil)) }
    }

    /// nil when the scope has no version yet and none is asked for.
    func version(_ wanted: VersionNumber?) async throws(GoogleError) -> StoredVersion? {
        guard let wanted else {
            return try await store(try await store.current(scope))
        }
        return try await store(try await stored(wanted))
    }

    private func stored(_ wanted: VersionNumber) async throws(StoreError) -> StoredVersion {
        guard let version = try await store.version(wanted, of: scope) else { throw .unknownVersion(wanted) }
        return version
    }

    /// `GET remoteConfig:listVersions`: metadata, newest first; `{}` when there are no versions.
    func listVersions(_ call: Call) async throws(GoogleError) -> Answer {
        let wanted = try versionQuery(call.query)
        return try await call.fromNewest { () async throws(GoogleError) in
            let page = try await store(try await store.versions(of: scope, wanted))
            return call.json([
                "versions": page.versions.isEmpty ? nil : .array(page.versions.map(\.json)),
                "nextPageToken": page.next.map { .string(String($0)) },
            ])
        }
    }

    private static let defaultPageSize: Int64 = 10
    private static let maxPageSize: Int64 = 300

    private func versionQuery(_ query: QueryParameters) throws(GoogleError) -> VersionQuery {
        let size = try query.integer("pageSize") ?? 0
        guard size >= 0 else { throw .invalidField("pageSize", "pageSize must not be negative") }
        return VersionQuery(
            pageSize: Int(size == 0 ? Self.defaultPageSize : min(size, Self.maxPageSize)),
            startingAt: try pageToken(query),
            endVersion: try query.versionNumber("endVersionNumber"),
            startTime: try query.timestamp("startTime"), endTime: try query.timestamp("endTime"))
    }

    private func pageToken(_ query: QueryParameters) throws(GoogleError) -> VersionNumber? {
        guard let token = query["pageToken"] else { return nil }
        guard let version = VersionNumber(token), version > 0 else {
            throw .invalidField(
                "pageToken", "pageToken is not one this server gave; leave it out to start at the newest")
        }
        return version
    }
}
