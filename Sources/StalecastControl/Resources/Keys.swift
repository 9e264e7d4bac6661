import StalecastAccess
import StalecastHTTP
import StalecastWire

/// API keys, as the API has them. A change is durable before it counts, and counts before it is answered.
extension Call {
    func listKeys() -> Answer {
        Answer(["keys": .array(control.access.keys.map { .object(Self.document($0)) })])
    }

    func createKey() async throws(GoogleError) -> Answer {
        let settings = try JSONBody.parse(body)
        var new = try Self.template(settings)
        let made = Self.made(new.kind)
        (new.id, new.secrets, new.createdAt) = (made.id, [.init(made.digest)], .now())
        let (key, access) = (new, control.access)
        let quota = KeyQuota(most: control.configuration.maxKeys, isShared: control.keys.isShared)
        let stored = try await control.keys.change {
            // Asked while the key is changed: an answer of before could be outdated by the key of another request.
            quota.outgoing(of: access.storedKeys, at: .now()) == nil ? nil : key
        } removing: {
            quota.outgoing(of: access.storedKeys, at: .now()) ?? []
        }
        guard stored != nil else { throw quota.refusal }
        name(key)
        note.set("grants", .array(key.grants.map(\.json)))
        return answer(key.id, made)
    }

    /// Names a key for the audit log, which outlasts the key's record.
    private func name(_ key: AccessKey) {
        note.set("key", .string(key.id))
        if !key.name.isEmpty { note.set("keyName", .string(key.name)) }
    }

    func rotateKey() async throws(GoogleError) -> Answer {
        let before = try storedKey()
        let overlap = try overlap()
        let (made, id, access) = (Self.made(before.kind, id: before.id), before.id, control.access)
        let key = try await change {
            guard var key = access.key(id)?.key, key.revokedAt == nil else { return nil }
            key.rotate(to: made.digest, at: .now(), overlap: overlap)
            return key
        }
        if key == nil { throw Self.isRevoked(id) }
        return answer(id, made)
    }

    func revokeKey() async throws(GoogleError) -> Answer {
        let (id, access) = (try storedKey().id, control.access)
        let key = try await change {
            guard var key = access.key(id)?.key, key.revokedAt == nil else { return nil }
            key.revokedAt = .now()
            return key
        }
        guard let key else { throw Self.isRevoked(id) }
        name(key)
        return answer(id, nil)
    }

    // MARK: Parts

    private func change(_ make: @escaping @Sendable () -> AccessKey?) async throws(GoogleError) -> AccessKey? {
        try await control.keys.change(make) { [] }
    }

    private static func made(_ kind: APIKey.Kind, id: String? = nil) -> APIKey {
        var random = SystemRandomNumberGenerator()
        return APIKey(kind, id: id, using: &random)
    }

    /// The path's key, which is not of the configuration.
    private func storedKey() throws(GoogleError) -> AccessKey {
        let id = names["key"]
        if id == "bootstrap" {
            throw .failedPrecondition("The control token is replaced with `stalecast token rotate`, not here.")
        }
        guard let listed = control.access.key(id) else {
            throw .notFound("Requested entity was not found: there is no key \(id.prefix(40)).")
        }
        if listed.isConfigured {
            throw .failedPrecondition("The key \(id) is one of auth.keys in the configuration; change it there.")
        }
        return listed.key
    }

    private static func isRevoked(_ id: String) -> GoogleError {
        .failedPrecondition("The key \(id) is revoked already, for good; make another one.")
    }

    private func answer(_ id: String, _ made: APIKey?) -> Answer {
        guard let listed = control.access.key(id) else { preconditionFailure("a key that was stored is there") }
        var document = Self.document(listed)
        document["key"] = made.map { .string($0.text) }
        return Answer(.object(document))
    }

    private static func document(_ listed: Authorizer.Listed) -> JSONObject {
        var object = listed.key.document(at: .now()).object ?? [:]
        object["lastUsed"] = listed.lastUsed.map { .string($0.description) }
        object["configured"] = .bool(listed.isConfigured)
        return object
    }

    // MARK: What requests say

    /// A key without id and secret.
    private static func template(_ json: JSONValue) throws(GoogleError) -> AccessKey {
        let known = ["name", "kind", "grants", "notBefore", "expires"]
        guard let object = json.object else { throw .invalidArgument("The body must be a JSON object.") }
        if let other = object.keys.first(where: { !known.contains($0) }) {
            throw .invalidField(other, "\(other) is unknown; a key has \(known.joined(separator: ", "))")
        }
        guard let kind = APIKey.Kind(word: object["kind"].map { $0.string ?? "" } ?? APIKey.Kind.secret.word) else {
            throw .invalidField("kind", "kind must be one of publishable, secret")
        }
        let name = object["name"].map { $0.string } ?? ""
        guard let name, name.utf8.count <= 128 else {
            throw .invalidField("name", "name must be a text of at most 128 bytes")
        }
        let grants: [Grant]
        do { grants = try Grant.list(json["grants"]) } catch {
            throw .invalidField(error.field, "\(error.field) \(error)")
        }
        let isModest = grants.allSatisfy { $0.role == nil && $0.actions.isSubset(of: [.watch, .fetch]) }
        if kind == .publishable, !isModest {
            throw .invalidField("grants", "a publishable key is in apps and pages: it can only watch and fetch")
        }
        let (notBefore, expires) = (try time("notBefore", object), try time("expires", object))
        if let expires, expires <= max(.now(), notBefore ?? .now()) {
            throw .invalidField("expires", "expires must be a time to come, after notBefore")
        }
        return AccessKey(
            id: "", kind: kind, name: name, grants: grants, secrets: [], notBefore: notBefore, expiresAt: expires)
    }

    private static func time(_ name: String, _ object: JSONObject) throws(GoogleError) -> Timestamp? {
        guard let value = object[name], !value.isNull else { return nil }
        guard let time = value.string.flatMap(Timestamp.init) else {
            throw .invalidField(name, "\(name) must be a time such as 2027-01-31T00:00:00Z")
        }
        return time
    }

    /// `{"overlap":"3600s"}`: up to a year.
    private func overlap() throws(GoogleError) -> Duration {
        guard !body.isEmpty, let value = try JSONBody.parse(body)["overlap"], !value.isNull else {
            return AccessKey.overlap
        }
        guard let text = value.string, text.hasSuffix("s"), let seconds = Int64(text.dropLast()),
            (0...31_536_000).contains(seconds)
        else { throw .invalidField("overlap", "overlap must be 0s to 31536000s") }
        return .seconds(seconds)
    }
}
