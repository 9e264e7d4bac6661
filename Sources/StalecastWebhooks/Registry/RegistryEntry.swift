package import StalecastWire

/// A webhook with its keys: what one row of the registry's database holds.
package struct RegistryEntry: Sendable {
    package var webhook: Webhook
    /// The current one first; empty for formats that do not sign.
    package var keys: [Signer.SecretKey] { didSet { signer = Signer(keys) } }
    /// The keys, prepared.
    package private(set) var signer: Signer
    /// True after an update that made a key: no answer has shown its secret yet.
    package internal(set) var hasNewSecret = false
    /// Members of its row that a newer program wrote and this one does not know; they stay.
    private var foreign = JSONObject()

    /// Old keys of one webhook at most, the current one aside.
    package static let maxOldKeys = 10

    init(webhook: Webhook, keys: [Signer.SecretKey]) {
        self.webhook = webhook
        self.keys = keys
        signer = Signer(keys)
    }

    /// Document that the API shows: without secrets, with what is known of the keys.
    package func document(at now: Timestamp) -> JSONObject {
        var object = webhook.document(hidesCredentials: true)
        object["signing"] = signingDocument(at: now)
        return object
    }

    /// Document with the current secret, which is shown this once.
    package func documentWithSecret(at now: Timestamp) -> JSONObject {
        var object = document(at: now)
        guard let secret = keys.first, var signing = object["signing"]?.object else { return object }
        signing["secret"] = .string(secret.key.secretText)
        object["signing"] = .object(signing)
        return object
    }

    private func signingDocument(at now: Timestamp) -> JSONValue? {
        guard let current = keys.first?.key else { return nil }
        let valid = keys.filter { $0.isValid(at: now) }
        return [
            "algorithm": .string(current.algorithm.rawValue), "publicKey": .described(current.publicText),
            "keys": .array(
                valid.map { key in
                    [
                        "algorithm": .string(key.key.algorithm.rawValue), "createTime": .described(key.createdAt),
                        "publicKey": .described(key.key.publicText), "expireTime": .described(key.expiresAt),
                    ]
                }),
        ]
    }
}

extension RegistryEntry {
    /// The row's plain text, before it is sealed.
    package var record: JSONValue {
        var object = webhook.document(hidesCredentials: false)
        for (name, value) in foreign.members {
            var inner = object[name]?.object ?? JSONObject()
            for (member, value) in value.object?.members ?? [] { inner[member] = value }
            object[name] = value.object == nil ? value : .object(inner)
        }
        object["project"] = .string(webhook.project.description)
        object["generation"] = .int(webhook.generation)
        let since = webhook.since.sorted { $0.key < $1.key }
        if !since.isEmpty {
            object["since"] = .object(
                since.reduce(into: JSONObject()) { $0[$1.key.description] = .described($1.value) })
        }
        let secrets = webhook.origin == .api ? keys : []
        object["keys"] = .array(
            secrets.map { key in
                [
                    "secret": .string(key.key.secretText), "createTime": .described(key.createdAt),
                    "expireTime": .described(key.expiresAt),
                ]
            })
        return .object(object)
    }

    /// - Throws: ``RegistryProblem/storage(cause:)`` for a text that ``record`` did not write.
    package init(record: JSONValue) throws(RegistryProblem) {
        let webhook = try Webhook(record: record)
        var keys: [Signer.SecretKey] = []
        for entry in record["keys"]?.array ?? [] { keys.append(try Signer.SecretKey(record: entry)) }
        self.init(webhook: webhook, keys: keys)
        foreign = WebhookDraft.foreign(in: Webhook.settings(record))
    }
}

extension Signer.SecretKey {
    /// Whether the key still signs.
    func isValid(at now: Timestamp) -> Bool { expiresAt.map { now < $0 } ?? true }

    fileprivate init(record: JSONValue) throws(RegistryProblem) {
        guard let text = record["secret"]?.string, let created = record["createTime"]?.string.flatMap(Timestamp.init)
        else { throw .storage(cause: "a key's record lacks secret or createTime") }
        do {
            self.init(
                try SigningKey(text), createdAt: created,
                expiresAt: record["expireTime"]?.string.flatMap(Timestamp.init))
        } catch {
            throw .storage(cause: "a key's record: \(error)")
        }
    }
}

extension Webhook {
    fileprivate static func settings(_ record: JSONValue) -> JSONObject {
        var settings = record.object ?? JSONObject()
        for name in ["project", "generation", "keys", "since"] { settings[name] = nil }
        return settings
    }

    fileprivate init(record: JSONValue) throws(RegistryProblem) {
        var draft = WebhookDraft()
        do {
            try draft.take(.object(Self.settings(record)), files: .paths, isStored: true)
        } catch {
            throw .storage(cause: "a webhook's record: \(error)")
        }
        guard let id = record["id"]?.string.flatMap({ WebhookID($0) }), let url = draft.url,
            let created = record["createTime"]?.string.flatMap(Timestamp.init),
            let updated = record["updateTime"]?.string.flatMap(Timestamp.init),
            let generation = record["generation"]?.int64, record["origin"]?.string.flatMap(Origin.init) != nil,
            let project = try? ProjectID(record["project"]?.string ?? "")  // nil is refused like the rest
        else { throw .storage(cause: "a webhook's record lacks one of its members") }
        self.init(
            id: id, project: project, name: record["configuredAs"]?.string, url: url, settings: draft.settings,
            createdAt: created, updatedAt: updated, generation: Int(generation))
        for (name, cursor) in record["since"]?.object?.members ?? [] {
            // What no program wrote is as good as nothing.
            guard let topic = try? TopicName(name), let cursor = cursor.string.flatMap({ Cursor($0) }) else { continue }
            since[topic] = cursor
        }
        settings.verification.verifiedAt = record["verification"]?["verifyTime"]?.string.flatMap(Timestamp.init)
        settings.verification.allowedPerMinute = record["verification"]?["allowedPerMinute"]?.int64.map { Int($0) }
    }
}
