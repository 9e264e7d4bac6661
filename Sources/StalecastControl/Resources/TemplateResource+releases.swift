import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastStore
import StalecastWire

/// Versions that are released in stages.
extension TemplateResource {
    /// Reads how a publish is to be released: `release=staged|instant`, and for a staged one `stages`, `every`, `bake`,
    /// `first`, `anonymous`, `onTooLittle` and `gates`, each spelled as in a policy, in place of the scope's own.
    ///
    /// - Returns: nil where all clients are told at once.
    func staged(_ call: Call, isUrgent: Bool) throws(GoogleError) -> Publish.Staged? {
        let query = call.query
        let spelled = ["stages", "every", "bake", "first", "anonymous", "onTooLittle", "gates"].filter {
            query[$0] != nil
        }
        guard try isStaged(call, isUrgent) else {
            guard let name = spelled.first else { return nil }
            throw .invalidField(name, "\(name) is of a release in stages: say release=staged too")
        }
        if try query.flag("propose") {
            throw .invalidField("release", "a proposal is not staged; publish it with release=staged instead")
        }
        var policy = (call.control.configuration.projects.releases[scope]?.policy ?? .standard).json.object ?? [:]
        for name in spelled {
            guard let text = query[name] else { continue }
            let isList = name == "stages" || name == "first"
            policy[name] = isList ? .array(text.split(separator: ",").map { .string(String($0)) }) : .string(text)
        }
        if let gates = query["gates"] { policy["gates"] = try JSONBody.parse(Array(gates.utf8)) }
        do {
            return Publish.Staged(try ReleasePolicy(json: .object(policy)), by: call.principal?.actor ?? "stranger")
        } catch {
            throw .invalidArgument("[VALIDATION_ERROR]: \(error.description)")
        }
    }

    /// True when the version is to be staged. Where the request does not say, the scope's plan does. An urgent publish,
    /// a proposal and a first version are not staged for the plan's sake.
    private func isStaged(_ call: Call, _ isUrgent: Bool) throws(GoogleError) -> Bool {
        switch call.query["release"] {
        case "staged": return true
        case "instant": return false
        case nil:
            guard call.control.configuration.projects.releases[scope]?.isStagedByDefault == true else { return false }
            let isProposed = try call.query.flag("propose")
            return !isUrgent && !isProposed && store.currentTemplates[scope] != nil
        default: throw .invalidField("release", "release must be staged or instant")
        }
    }

    /// `GET remoteConfig/releases`: newest first.
    func listReleases(_ call: Call) async throws(GoogleError) -> Answer {
        let size = try call.query.integer("pageSize") ?? 20
        guard (1...100).contains(size) else { throw .invalidField("pageSize", "pageSize must be 1 to 100") }
        let releases = try await store(try await store.releases(of: scope, limit: Int(size)))
        return call.json(["releases": .array(releases.map { .object($0.json) })])
    }

    /// `GET remoteConfig/release:watch`: an event `release` at each change of it or of its figures, which are looked at
    /// once a second, and `done` when the release is over.
    func watchRelease(_ call: Call) async throws(GoogleError) -> Answer {
        _ = try await newestRelease()
        let (resource, control) = (self, call.control)
        return call.watched(scope) { [store, scope] _ in
            guard let release = store.release(of: scope) else {
                return .end(SSEEncoder.event("done", data: Array("{}".utf8)))
            }
            let shown = JSONValue.object(resource.shown(release, control))
            let event = SSEEncoder.event(release.isOpen ? "release" : "done", data: shown.encoded(.wire))
            return release.isOpen ? .news(event, key: shown) : .end(event)
        }
    }

    /// `GET remoteConfig/release`: the newest release, open or not.
    func getRelease(_ call: Call) async throws(GoogleError) -> Answer {
        answer(try await newestRelease(), call)
    }

    private func newestRelease() async throws(GoogleError) -> Release {
        if let release = await store.newestRelease(of: scope) { return release }
        throw .notFound("Requested entity was not found: no version of \(scope) was ever released in stages.")
    }

    /// `POST remoteConfig/release:pause`, `:resume`, `:advance` and `:promote`, with `{"reason":"…"}`. Alertmanager's
    /// webhook body is taken as a reason too; a body about a resolved alert pauses nothing. `percent` limits the action
    /// to the stage of that share, so that a client can safely repeat a request whose answer was lost.
    func changeRelease(_ action: ReleaseAction, _ call: Call) async throws(GoogleError) -> Answer {
        let request = try ReleaseRequest(call.body)
        // Alertmanager sends the end of an alert to the same URL as its beginning.
        if action == .pause, request.isEndOfAlert { return try await getRelease(call) }
        let actor = call.principal?.actor ?? "stranger"
        let release = try await store(
            commits: true,
            try await store.change(
                releaseOf: scope, action,
                ReleaseDecision(by: actor, reason: request.reason, seen: try await seen(at: request.percent))))
        note(release, request.reason, call)
        return answer(release, call)
    }

    /// `POST remoteConfig/release:rollback`: the content before the release becomes the next version.
    func rollBackRelease(_ call: Call) async throws(GoogleError) -> Answer {
        let request = try ReleaseRequest(call.body)
        let (user, origin, actor) = (call.updateUser, call.updateOrigin, call.principal?.actor ?? "stranger")
        let version = try await store(
            commits: true,
            try await store.rollBack(
                releaseOf: scope,
                ReleaseDecision(by: actor, reason: request.reason, seen: try await seen(at: request.percent)),
                user: user, origin: origin))
        call.note.published(version)
        guard let release = store.release(of: scope) else { throw .notFound("Requested entity was not found.") }
        note(release, request.reason, call)
        return answer(release, call)
    }

    /// The open release. It must have told `percent` of the clients, in basis points; nil when `percent` is nil.
    private func seen(at percent: Int?) async throws(StoreError) -> Release? {
        guard let percent else { return nil }
        guard let release = await store.newestRelease(of: scope), release.isOpen else { throw .noRelease(scope) }
        guard release.told == percent else {
            throw .releaseRefused(
                "the release of version \(release.version) is at \(Percentage.text(release.told)), not at "
                    + "\(Percentage.text(percent)); nothing was done")
        }
        return release
    }

    private func note(_ release: Release, _ reason: String?, _ call: Call) {
        call.note.set("release", .string(String(release.version)))
        call.note.set("state", .string(release.state.rawValue))
        if let reason { call.note.set("reason", .string(reason)) }
    }

    private func answer(_ release: Release, _ call: Call) -> Answer {
        call.json(shown(release, call.control))
    }

    /// The release with the newest readings of its gates and the number of clients it reached.
    private func shown(_ release: Release, _ control: Control) -> JSONObject {
        var object = release.json
        object["clients"] = control.hub.releases.reach(of: scope, release.version)?.json
        object["gates"] = .array(control.hub.releases.gates(of: scope, release.version).map(\.json))
        return object
    }

    fileprivate static let mostReasonBytes = 1024
}

/// Body of an action on a release: `{"reason":"…","percent":10}`, or what Alertmanager sends; may be empty.
private struct ReleaseRequest {
    /// nil where none is given.
    var reason: String?
    /// Share that the release must have reached for the action, in basis points; nil: any share.
    var percent: Int?
    var isEndOfAlert = false

    init(_ body: [UInt8]) throws(GoogleError) {
        guard !body.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) else { return }
        let json = try JSONBody.parse(body)
        guard json.object != nil else { throw .invalidArgument("The request body must be a JSON object.") }
        isEndOfAlert = json["alerts"]?.array != nil && json["status"]?.string == "resolved"
        reason = try Self.reason(json)
        guard let value = json["percent"], !value.isNull else { return }
        percent = Percentage.basisPoints(value)
        guard percent != nil else {
            throw .invalidField("percent", "percent is the share that the release has told, such as 10 or \"10%\"")
        }
    }

    private static func reason(_ json: JSONValue) throws(GoogleError) -> String? {
        let most = TemplateResource.mostReasonBytes
        if let alerts = json["alerts"]?.array {
            let names = alerts.filter { $0["status"]?.string != "resolved" }
                .compactMap { $0["labels"]?["alertname"]?.string }
            let text = "alert: " + (names.isEmpty ? json["status"]?.string ?? "unnamed" : names.joined(separator: ", "))
            return String(decoding: text.utf8.prefix(most), as: UTF8.self)
        }
        guard let value = json["reason"], !value.isNull else { return nil }
        guard let reason = value.string, reason.utf8.count <= most else {
            throw .invalidField("reason", "reason is a text of at most \(most) bytes")
        }
        return reason.isEmpty ? nil : reason
    }
}

extension Call {
    /// Reason of a publish; nil where none is given.
    func publishReason() throws(GoogleError) -> String? {
        guard let reason = query["reason"], !reason.isEmpty else { return nil }
        guard reason.utf8.count <= TemplateResource.mostReasonBytes else {
            throw .invalidField("reason", "reason is a text of at most \(TemplateResource.mostReasonBytes) bytes")
        }
        return reason
    }
}
