package import StalecastWire

/// Problem of a requested grant or key; `description` is a sentence.
package struct AccessProblem: Error, CustomStringConvertible {
    /// The member, `grants[0].actions`.
    package let field: String
    package let description: String

    package init(_ field: String, _ description: String) {
        self.field = field
        self.description = description
    }
}

extension Grant {
    /// `{"role":"publisher","actions":["watch"],"projects":["demo"],"namespaces":["*"],"topics":["*"]}`; what is left
    /// out is any. A role or an action there must be.
    package init(_ json: JSONValue, at path: String) throws(AccessProblem) {
        guard var object = json.object else { throw AccessProblem(path, "must be an object, not \(json.kind)") }
        let known = ["role", "actions", "projects", "namespaces", "topics"]
        if let other = object.keys.first(where: { !known.contains($0) }) {
            throw AccessProblem("\(path).\(other)", "is unknown; a grant has \(known.joined(separator: ", "))")
        }
        if object["actions"]?.isNull ?? false { object["actions"] = nil }
        let texts = try known.dropFirst().map { name throws(AccessProblem) in
            try Self.texts(object[name], at: "\(path).\(name)")
        }
        try self.init(
            role: object["role"].flatMap { $0.isNull ? nil : $0.string ?? "" }, actions: texts[0] ?? [],
            projects: texts[1], namespaces: texts[2], topics: texts[3], at: path)
    }

    /// Makes a grant from words; nil is any.
    package init(
        role: String?, actions: [String], projects: [String]?, namespaces: [String]?, topics: [String]?, at path: String
    ) throws(AccessProblem) {
        var known: AccessRole?
        if let role {
            known = AccessRole(rawValue: role)
            if known == nil { throw Self.noneOf(AccessRole.allCases.map(\.rawValue), "\(path).role", role) }
        }
        var granted: Set<AccessAction> = []
        for word in actions {
            guard let action = AccessAction(rawValue: word) else {
                throw Self.noneOf(AccessAction.allCases.map(\.rawValue), "\(path).actions", word)
            }
            granted.insert(action)
        }
        if known == nil, granted.isEmpty { throw AccessProblem(path, "needs a role or an action") }
        self.init(
            role: known, actions: granted, projects: try Self.globs(projects, at: "\(path).projects"),
            namespaces: try Self.globs(namespaces, at: "\(path).namespaces"),
            topics: try Self.globs(topics, at: "\(path).topics"))
    }

    private static func noneOf(_ words: [String], _ path: String, _ word: String) -> AccessProblem {
        AccessProblem(path, "\"\(word.prefix(40))\" is none of \(words.joined(separator: ", "))")
    }

    /// Texts of a list; nil for a list that is left out, which means any. Null is refused: some programs write an empty
    /// list as null, and it must not mean any.
    private static func texts(_ json: JSONValue?, at path: String) throws(AccessProblem) -> [String]? {
        guard let json else { return nil }
        guard let list = json.array, list.count <= maxPatterns, list.allSatisfy({ $0.string != nil }) else {
            throw AccessProblem(path, "must be a list of at most \(maxPatterns) texts; leave it out to mean any")
        }
        return list.compactMap(\.string)
    }

    private static let maxPatterns = 64

    private static func globs(_ texts: [String]?, at path: String) throws(AccessProblem) -> [Glob] {
        guard let texts else { return [.any] }
        if texts.isEmpty { throw AccessProblem(path, "must not be empty; leave it out to mean any") }
        var globs: [Glob] = []
        for text in texts {
            do { globs.append(try Glob(ofNames: text)) } catch { throw AccessProblem(path, error.description) }
        }
        return globs
    }

    package var json: JSONValue {
        [
            "role": role.map { .string($0.rawValue) },
            "actions": actions.isEmpty ? nil : .texts(actions.map(\.rawValue).sorted()),
            "projects": .texts(projects), "namespaces": .texts(namespaces), "topics": .texts(topics),
        ]
    }

    /// Most grants in one key.
    package static let maxPerKey = 32

    /// A list of them, at least one.
    package static func list(_ json: JSONValue?) throws(AccessProblem) -> [Grant] {
        guard let list = json?.array, (1...maxPerKey).contains(list.count) else {
            throw AccessProblem("grants", "must be a list of 1 to \(maxPerKey) grants")
        }
        var grants: [Grant] = []
        for (index, element) in list.enumerated() { grants.append(try Grant(element, at: "grants[\(index)]")) }
        return grants
    }
}

extension AccessKey {
    /// Form in the store: with the digests of its secrets.
    package var record: JSONValue {
        var object = document(at: nil).object ?? [:]
        object["secrets"] = .array(
            secrets.map { secret in
                [
                    "sha256": .string(secret.digest.hexadecimal),
                    "expires": secret.expiresAt.map { .string($0.description) },
                ]
            })
        return .object(object)
    }

    private static let recordMembers: Set = [
        "id", "kind", "name", "grants", "created", "notBefore", "expires", "revoked", "secrets",
    ]

    /// ``record`` in the place of what is stored: what a newer program added there stays.
    package func record(over stored: JSONValue?) -> JSONValue {
        var object = record.object ?? [:]
        for (name, value) in stored?.object?.members ?? [] where !Self.recordMembers.contains(name) {
            object[name] = value
        }
        return .object(object)
    }

    /// Form in lists: nothing that opens anything.
    ///
    /// - Parameter now: tells the state; nil leaves it out.
    package func document(at now: Timestamp?) -> JSONValue {
        func time(_ time: Timestamp?) -> JSONValue? { time.map { .string($0.description) } }
        let end = now.flatMap { _ in secrets.dropFirst().compactMap(\.expiresAt).max() }
        return [
            "id": .string(id), "kind": .string(kind.word), "name": .string(name),
            "state": now.map { .string(state(at: $0)) }, "grants": .array(grants.map(\.json)),
            "created": time(createdAt), "notBefore": time(notBefore), "expires": time(expiresAt),
            "revoked": time(revokedAt), "formerSecretExpires": time(end),
        ]
    }

    private func state(at now: Timestamp) -> String {
        guard let secret = secrets.first else { return Denial.revoked.rawValue }
        do { _ = try currentPrincipal(of: secret, at: now) } catch { return error.rawValue }
        return "active"
    }

    /// Reads the form in the store.
    package init(record json: JSONValue) throws(AccessProblem) {
        guard let id = json["id"]?.string, APIKey.isID(id),
            let kind = json["kind"]?.string.flatMap(APIKey.Kind.init(word:))
        else { throw AccessProblem("id", "is no key's") }
        let secrets = (json["secrets"]?.array ?? []).compactMap { secret in
            (secret["sha256"]?.string).flatMap(SecretDigest.init(hexadecimal:)).map {
                Secret($0, expiresAt: secret["expires"]?.string.flatMap(Timestamp.init))
            }
        }
        if secrets.isEmpty { throw AccessProblem("secrets", "are missing") }
        func time(_ name: String) -> Timestamp? { json[name]?.string.flatMap(Timestamp.init) }
        self.init(
            id: id, kind: kind, name: json["name"]?.string ?? "", grants: try Grant.list(json["grants"]),
            secrets: secrets, createdAt: time("created"), notBefore: time("notBefore"), expiresAt: time("expires"))
        revokedAt = time("revoked")
    }
}
