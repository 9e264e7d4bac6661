import StalecastStore
import StalecastTemplate
import StalecastWire

extension TemplateResource {
    /// `PUT remoteConfig`: validates, compares and sets, answers when the new version is visible. With `validateOnly`
    /// everything is checked and nothing is done; the ETag then ends in `-0`.
    func publish(_ request: ControlRequest, body: [UInt8]) async throws(GoogleError) -> Answer {
        let validateOnly = try request.query.flag("validateOnly")
        let precondition = try Publish.Precondition(ifMatch: request.headers["if-match"])
        let template = try await Self.template(body, TemplateKind(namespace: scope.namespace))
        let publish = Publish(
            scope: scope, template: template, precondition: precondition,
            description: template.requestedDescription, origin: request.updateOrigin,
            isUrgent: try request.isUrgent(template.requestedDescription))
        if validateOnly { return try await validated(publish, pretty: request.query.wantsPretty) }
        let version = try await store(commits: true) { () async throws(StoreError) in try await store.publish(publish) }
        return answer(version, pretty: request.query.wantsPretty)
    }

    private func validated(_ publish: Publish, pretty: Bool) async throws(GoogleError) -> Answer {
        _ = try await store { () async throws(StoreError) in try store.check(publish) }
        let version: JSONValue? =
            publish.description.isEmpty ? nil : ["description": .string(publish.description)]
        return answer(publish.template.json, version: version, etag: etag(0), pretty: pretty)
    }

    /// Parsing and checking 8 MB takes long enough to keep it off every event loop.
    @concurrent
    private static func template(_ body: [UInt8], _ kind: TemplateKind) async throws(GoogleError) -> Template {
        let json = try JSONBody.parse(body)
        do { return try Template(validating: json, kind: kind) } catch {
            throw .invalidArgument(error.message).with(detail: [
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": .array(
                    error.problems.map {
                        ["field": .string($0.path), "description": .string($0.description)]
                    }),
            ])
        }
    }

    /// `POST remoteConfig:rollback`: the target stands in the body or, as firebase-tools sends it, in the query.
    func rollback(_ request: ControlRequest, body: [UInt8]) async throws(GoogleError) -> Answer {
        let queried = try request.query.versionNumber("versionNumber")
        guard let target = try Self.target(body) ?? queried else {
            throw .invalidField("versionNumber", "versionNumber is missing: say which version to roll back to")
        }
        let origin = request.updateOrigin
        let version = try await store(commits: true) { () async throws(StoreError) in
            try await store.rollback(scope, to: target, origin: origin)
        }
        return answer(version, pretty: request.query.wantsPretty)
    }

    private static func target(_ body: [UInt8]) throws(GoogleError) -> VersionNumber? {
        let isBlank = body.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
        guard !isBlank else { return nil }
        guard let object = try JSONBody.parse(body).object else {
            throw .invalidArgument("The request body must be a JSON object.")
        }
        guard let value = object["versionNumber"] ?? object["version_number"], !value.isNull else { return nil }
        guard let number = value.int64, number > 0 else {
            throw .invalidField("versionNumber", "versionNumber must be an integer greater than 0")
        }
        return number
    }
}
