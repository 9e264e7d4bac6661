import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastTemplate
import StalecastWire

extension TemplateResource {
    /// `PUT remoteConfig`: validates, compares and sets, answers when the new version is visible. With `validateOnly`
    /// everything is checked and nothing is done; the ETag then ends in `-0`. With `propose` it waits for approval.
    func publish(_ call: Call) async throws(GoogleError) -> Answer {
        let (validateOnly, proposes) = (try call.query.flag("validateOnly"), try call.query.flag("propose"))
        let precondition = try Publish.Precondition(ifMatch: call.ifMatch())
        let template = try await Self.template(call.body, TemplateKind(namespace: scope.namespace))
        var publish = Publish(
            scope: scope, template: template, precondition: precondition,
            description: template.requestedDescription, user: call.updateUser, origin: call.updateOrigin,
            isUrgent: try call.isUrgent(template.requestedDescription))
        publish.idempotencyKey = try call.idempotencyKey(for: scope)
        publish.staged = try staged(call, isUrgent: publish.isUrgent)
        // `release=instant` means all clients, so it takes the place of an open release.
        publish.supersedes = try call.query.flag("supersede") || call.query["release"] == "instant"
        (publish.author, publish.reason) = (call.principal?.actor, try call.publishReason())
        if validateOnly {
            call.note.onlyChecked()
            return try await validated(publish, pretty: call.wantsPretty)
        }
        let publishTime = try publishTime(call, publish)
        if proposes || publishTime != nil { return try await propose(publish, at: publishTime, call) }
        if call.needsApproval(scope.project) { throw .needsApproval(scope) }
        let version = try await store(commits: true, try await store.publish(publish))
        call.note.published(version)
        if let reason = publish.reason { call.note.set("reason", .string(reason)) }
        if publish.staged != nil { call.note.set("release", "staged") }
        let isStagedOtherwise = call.control.configuration.projects.releases[scope]?.isStagedByDefault == true
        if publish.staged == nil, publish.supersedes || isStagedOtherwise { call.note.set("release", "instant") }
        return answer(version, pretty: call.wantsPretty)
    }

    private func validated(_ publish: Publish, pretty: Bool) async throws(GoogleError) -> Answer {
        _ = try await store(try store.check(publish))
        let version: JSONValue? =
            publish.description.isEmpty ? nil : ["description": .string(publish.description)]
        var answer = answer(publish.template.json, version: version, etag: etag(0), pretty: pretty)
        if publish.staged != nil { answer.add(state: .pending, told: 0) }
        return answer
    }

    /// Parsing and checking 8 MB takes long enough to keep it off every event loop.
    @concurrent
    private static func template(_ body: [UInt8], _ kind: TemplateKind) async throws(GoogleError) -> Template {
        let json = try JSONBody.parse(body)
        do { return try Template(validating: json, from: body, kind: kind) } catch {
            throw .invalidArgument(error.message).with(detail: [
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": .array(
                    error.problems.map {
                        ["field": .string($0.path), "description": .string($0.description)]
                    }),
            ])
        }
    }

    /// `POST remoteConfig:rollback`: the target stands in the body or, as firebase-tools sends it, in the query. In an
    /// emergency no approval is waited for, but the log and the audit tell of it.
    func rollback(_ call: Call) async throws(GoogleError) -> Answer {
        if try call.query.flag("validateOnly") {
            throw .invalidArgument(
                "A rollback has no validateOnly, and nothing was rolled back. GET remoteConfig?versionNumber=N shows what a "
                    + "rollback to N would bring.")
        }
        let queried = try call.query.versionNumber("versionNumber")
        guard let target = try Self.target(call.body) ?? queried else {
            throw .invalidField("versionNumber", "versionNumber is missing: say which version to roll back to")
        }
        // Google's rollback has no If-Match; a client that sends one means it.
        let ifMatch = try call.ifMatch()
        let precondition = ifMatch == nil ? .any : try Publish.Precondition(ifMatch: ifMatch)
        let (user, origin, key) = (call.updateUser, call.updateOrigin, try call.idempotencyKey(for: scope))
        let version = try await store(
            commits: true,
            try await store.rollback(
                scope, to: target, if: precondition, user: user, origin: origin, idempotencyKey: key))
        call.note.published(version)
        if call.needsApproval(scope.project) {
            call.note.set("bypass", "approvals")
            call.control.bypassed(version, call.principal?.actor ?? "stranger")
        }
        return answer(version, pretty: call.wantsPretty)
    }

    private static func target(_ body: [UInt8]) throws(GoogleError) -> VersionNumber? {
        let isBlank = body.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
        guard !isBlank else { return nil }
        let request = try JSONBody.parse(body)
        guard request.object != nil else { throw .invalidArgument("The request body must be a JSON object.") }
        return try request.wantedVersion
    }
}

extension JSONValue {
    /// A request's `versionNumber`, as number or text; nil where none is given.
    var wantedVersion: VersionNumber? {
        get throws(GoogleError) {
            guard let value = self["versionNumber"] ?? self["version_number"], !value.isNull else { return nil }
            guard let number = value.int64, number > 0 else {
                throw .invalidField("versionNumber", "versionNumber must be an integer greater than 0")
            }
            return VersionNumber(clamping: number)
        }
    }
}

extension Call {
    /// Header `Idempotency-Key`, in a scope of its own for each template: 1 to 255 visible characters, in quotation marks
    /// as the IETF's draft has them, or without; nil where there is none.
    fileprivate func idempotencyKey(for scope: Scope) throws(GoogleError) -> String? {
        guard var key = self[field: "idempotency-key"] else { return nil }
        if key.utf8.count > 1, key.hasPrefix("\""), key.hasSuffix("\"") { key = String(key.dropFirst().dropLast()) }
        guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw .invalidArgument("Idempotency-Key must have 1 to 255 visible ASCII characters.")
        }
        return "\(scope) \(key)"
    }

    /// Whether a publish asks clients to fetch at once: header `X-Stalecast-Urgent: true`, or `[urgent]` in the
    /// description.
    fileprivate func isUrgent(_ description: String) throws(GoogleError) -> Bool {
        switch self[field: "x-stalecast-urgent"]?.lowercased() {
        case "true", "1": return true
        case nil, "false", "0": return !description.isEmpty && description.contains(ChangeNotes.urgentMarker)
        default: throw .invalidArgument("X-Stalecast-Urgent must be true or false.")
        }
    }
}
