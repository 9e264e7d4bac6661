import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastStore
import StalecastWire

/// Versions that are released in stages.
extension TemplateResource {
    /// Reads how a publish is to be released: `release=staged|instant`, and for a staged one `stages`, `every`, `bake`,
    /// `first`, `anonymous`, `onTooLittle` and `gates`, each spelled as in a policy, in place of the standard.
    ///
    /// - Returns: nil where all clients are told at once.
    static func staged(_ call: Call) throws(GoogleError) -> Publish.Staged? {
        let query = call.query
        let choice = try choice(query["release"])
        let spelled = ["stages", "every", "bake", "first", "anonymous", "onTooLittle", "gates"].filter {
            query[$0] != nil
        }
        guard choice == .staged else {
            guard let name = spelled.first else { return nil }
            throw .invalidField(name, "\(name) is of a release in stages: say release=staged too")
        }
        if try query.flag("propose") {
            throw .invalidField("release", "a proposal is not staged; publish it with release=staged instead")
        }
        var policy = JSONObject()
        for name in spelled {
            guard let text = query[name] else { continue }
            let isList = name == "stages" || name == "first"
            policy[name] =
                isList ? .array(text.split(separator: ",").map { .string(String($0)) }) : .string(text)
        }
        if let gates = query["gates"] { policy["gates"] = try JSONBody.parse(Array(gates.utf8)) }
        do {
            return Publish.Staged(
                try ReleasePolicy(json: .object(policy)), by: call.principal?.actor ?? "stranger")
        } catch {
            throw .invalidArgument("[VALIDATION_ERROR]: \(error.description)")
        }
    }

    private enum Choice: String { case staged, instant }

    private static func choice(_ text: String?) throws(GoogleError) -> Choice {
        guard let text else { return .instant }
        guard let choice = Choice(rawValue: text) else {
            throw .invalidField("release", "release must be staged or instant")
        }
        return choice
    }

    /// `GET remoteConfig/release`: the newest release, open or not.
    func getRelease(_ call: Call) async throws(GoogleError) -> Answer {
        guard let release = store.release(of: scope) else {
            throw .notFound("Requested entity was not found: no version of \(scope) was ever released in stages.")
        }
        return answer(release, call)
    }

    /// `POST remoteConfig/release:pause`, `:resume` and `:promote`, with `{"reason":"…"}`. Alertmanager's webhook body is a
    /// reason too; one that says that an alert is over pauses nothing.
    func changeRelease(_ action: ReleaseAction, _ call: Call) async throws(GoogleError) -> Answer {
        let reason = try Self.releaseReason(call.body)
        // Alertmanager sends the end of an alert to the same URL as its beginning.
        if action == .pause, Self.isEndOfAlert(call.body) { return try await getRelease(call) }
        let actor = call.principal?.actor ?? "stranger"
        let release = try await store(commits: true) { () async throws(StoreError) in
            try await store.change(releaseOf: scope, action, by: actor, reason: reason)
        }
        note(release, reason, call)
        return answer(release, call)
    }

    /// `POST remoteConfig/release:rollback`: the content of before becomes the next version.
    func rollBackRelease(_ call: Call) async throws(GoogleError) -> Answer {
        let reason = try Self.releaseReason(call.body)
        let (user, origin, actor) = (call.updateUser, call.updateOrigin, call.principal?.actor ?? "stranger")
        let version = try await store(commits: true) { () async throws(StoreError) in
            try await store.rollBack(releaseOf: scope, by: actor, reason: reason, user: user, origin: origin)
        }
        call.note.published(version)
        guard let release = store.release(of: scope) else { throw .notFound("Requested entity was not found.") }
        note(release, reason, call)
        return answer(release, call)
    }

    private func note(_ release: Release, _ reason: String?, _ call: Call) {
        call.note.set("release", .string(String(release.version)))
        call.note.set("state", .string(release.state.rawValue))
        if let reason { call.note.set("reason", .string(reason)) }
    }

    private func answer(_ release: Release, _ call: Call) -> Answer {
        var object = release.json
        object["gates"] = .array(call.control.hub.releases.gates(of: scope, release.version).map(\.json))
        let json = JSONValue.object(object)
        return Answer(contentType: Answer.jsonType, body: json.encoded(call.wantsPretty ? .pretty : .utf8Line))
    }

    private static func isEndOfAlert(_ body: [UInt8]) -> Bool {
        // A body that is not JSON was refused before.
        let json = try? JSONBody.parse(body)
        return json?["alerts"]?.array != nil && json?["status"]?.string == "resolved"
    }

    private static let mostReasonBytes = 1024

    /// - Returns: nil where none is given.
    private static func releaseReason(_ body: [UInt8]) throws(GoogleError) -> String? {
        guard !body.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) else { return nil }
        let json = try JSONBody.parse(body)
        guard json.object != nil else { throw .invalidArgument("The request body must be a JSON object.") }
        if let alerts = json["alerts"]?.array {
            let names = alerts.filter { $0["status"]?.string != "resolved" }
                .compactMap { $0["labels"]?["alertname"]?.string }
            let text = "alert: " + (names.isEmpty ? json["status"]?.string ?? "unnamed" : names.joined(separator: ", "))
            return String(decoding: text.utf8.prefix(mostReasonBytes), as: UTF8.self)
        }
        guard let value = json["reason"], !value.isNull else { return nil }
        guard let reason = value.string, reason.utf8.count <= mostReasonBytes else {
            throw .invalidField("reason", "reason is a text of at most \(mostReasonBytes) bytes")
        }
        return reason.isEmpty ? nil : reason
    }
}
