import StalecastOutbound
package import StalecastWire

extension WebhookDraft {
    /// Members of a webhook's document that only the daemon writes; in a request they are passed over.
    private static let outputOnly: Set<String> = [
        "name", "id", "configuredAs", "origin", "state", "delivery", "signing", "createTime", "updateTime", "etag",
    ]
    private static let containers: Set<String> = ["limits", "tls", "fcm", "verification"]

    /// Takes settings from a document as the API has it.
    ///
    /// - Parameters:
    ///   - mask: paths to take, where what the document lacks goes back to its default; nil takes what is there.
    ///   - files: how names of files become paths.
    ///   - isStored: it is no request; what a newer program wrote in it is passed over.
    /// - Throws: ``RegistryProblem/invalid(field:_:)`` for the first field that is wrong.
    package mutating func take(
        _ document: JSONValue, mask: [String]? = nil, files: FileNames, isStored: Bool = false
    ) throws(RegistryProblem) {
        guard let object = document.object else {
            throw .invalid(field: "webhook", "must be an object, not \(document.kind)")
        }
        if !isStored { try Self.refuseUnknown(object) }
        let fields: [WebhookField]
        if let mask {
            fields = try Self.fields(mask)
        } else {
            fields = WebhookField.allCases.filter { $0.isPresent(in: document) }
        }
        for field in fields { try field.read(field.value(in: document), into: &self, files: files) }
    }

    private static func fields(_ mask: [String]) throws(RegistryProblem) -> [WebhookField] {
        var fields: [WebhookField] = []
        for path in mask {
            let named = path == "*" ? WebhookField.allCases : WebhookField.named(path)
            if named.isEmpty {
                let known = WebhookField.allCases.map(\.rawValue).joined(separator: ", ")
                throw .invalid(
                    field: "updateMask", "there is no field \(path.prefix(80)) to update; there are \(known)")
            }
            fields += named
        }
        return fields
    }

    private static func refuseUnknown(_ object: JSONObject) throws(RegistryProblem) {
        for (name, value) in object.members where containers.contains(name) && !value.isNull && value.object == nil {
            throw .invalid(field: name, "must be an object, not \(value.kind)")
        }
        guard let (name, value) = foreign(in: object).members.first else { return }
        let inner = containers.contains(name) ? value.object?.keys.first : nil
        let known = WebhookField.allCases.map(\.rawValue).joined(separator: ", ")
        throw .invalid(
            field: String((inner.map { "\(name).\($0)" } ?? name).prefix(80)),
            "there is no such field; there are \(known)")
    }

    private static func isKnown(_ name: String, in container: String) -> Bool {
        let isOutput = container == "verification" && ["verifyTime", "allowedPerMinute"].contains(name)
        return isOutput || WebhookField(rawValue: "\(container).\(name)") != nil
    }

    /// Members of a stored document that this program does not know, as deep as its containers.
    static func foreign(in stored: JSONObject) -> JSONObject {
        var foreign = JSONObject()
        for (name, value) in stored.members where !outputOnly.contains(name) {
            if containers.contains(name) {
                var inner = JSONObject()
                for (member, value) in value.object?.members ?? [] where !isKnown(member, in: name) {
                    inner[member] = value
                }
                if !inner.isEmpty { foreign[name] = .object(inner) }
            } else if WebhookField(rawValue: name) == nil {
                foreign[name] = value
            }
        }
        return foreign
    }
}

extension WebhookField {
    /// Whether a document names the field, if only with `null`.
    fileprivate func isPresent(in document: JSONValue) -> Bool {
        let (outer, inner) = path
        guard let value = document[outer] else { return false }
        return value.isNull || inner.map { value[$0] != nil } ?? true
    }
}

extension Webhook {
    /// The settings and facts of a webhook as the API shows and the registry stores them, signing keys excepted.
    ///
    /// - Parameter hidesCredentials: true for answers: header values that are likely credentials become `(hidden)`.
    package func document(hidesCredentials: Bool) -> JSONObject {
        var object: JSONObject = [
            "name": .string("projects/\(project)/webhooks/\(id)"), "id": .string(id.description),
            "configuredAs": .described(name),
        ]
        for field in WebhookField.allCases {
            guard let value = field.value(of: self, hidesCredentials: hidesCredentials) else { continue }
            object.set(value, at: field.path)
        }
        object.set(.described(settings.verification.verifiedAt), at: ("verification", "verifyTime"))
        object.set(settings.verification.allowedPerMinute.map { .int($0) }, at: ("verification", "allowedPerMinute"))
        object["origin"] = .string(origin.rawValue)
        object["createTime"] = .string(createdAt.description)
        object["updateTime"] = .string(updatedAt.description)
        object["etag"] = .string(etag)
        return object
    }

    /// Names this generation of this webhook.
    package var etag: String { "\(id)-\(generation)" }
}

extension JSONObject {
    fileprivate mutating func set(_ value: JSONValue?, at path: (outer: String, inner: String?)) {
        guard let inner = path.inner else { return self[path.outer] = value }
        var object = self[path.outer]?.object ?? JSONObject()
        object[inner] = value
        self[path.outer] = .object(object)
    }
}
