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
        for (name, value) in object.members where !outputOnly.contains(name) {
            if containers.contains(name) {
                try refuseUnknown(value, in: name)
            } else if !WebhookField.allCases.contains(where: { $0.rawValue == name }) {
                throw unknown(name)
            }
        }
    }

    private static func refuseUnknown(_ value: JSONValue, in container: String) throws(RegistryProblem) {
        if value.isNull { return }
        guard let object = value.object else {
            throw .invalid(field: container, "must be an object, not \(value.kind)")
        }
        for name in object.keys where !isKnown(name, in: container) { throw unknown("\(container).\(name)") }
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
            } else if !WebhookField.allCases.contains(where: { $0.rawValue == name }) {
                foreign[name] = value
            }
        }
        return foreign
    }

    private static func unknown(_ path: String) -> RegistryProblem {
        let known = WebhookField.allCases.map(\.rawValue).joined(separator: ", ")
        return .invalid(field: String(path.prefix(80)), "there is no such field; there are \(known)")
    }
}

extension WebhookField {
    /// Whether a document names the field, if only with `null`.
    fileprivate func isPresent(in document: JSONValue) -> Bool {
        let names = rawValue.split(separator: ".").map(String.init)
        guard let outer = document[names[0]] else { return false }
        return names.count == 1 || outer.isNull || outer[names[1]] != nil
    }
}

extension Webhook {
    /// The settings and facts of a webhook as the API shows and the registry stores them, signing keys excepted.
    ///
    /// - Parameter hidesCredentials: true for answers: header values that are likely credentials become `(hidden)`.
    package func document(hidesCredentials: Bool) -> JSONObject {
        var object: JSONObject = ["name": .string("projects/\(project)/webhooks/\(id)"), "id": .string(id.description)]
        if let name { object["configuredAs"] = .string(name) }
        object["url"] = .string(url.text)
        object["topics"] = .array(topics.map { .string($0.description) })
        object["format"] = .string(format.rawValue)
        object["mode"] = .string(mode.name)
        if !headers.isEmpty { object["headers"] = .object(headerDocument(hidesCredentials)) }
        object["limits"] = limitsDocument
        object["tls"] = tlsDocument
        object["addressProfile"] = .string(profile.rawValue)
        object["fcm"] = fcmDocument
        object["verification"] = verificationDocument
        if !description.isEmpty { object["description"] = .string(description) }
        object["paused"] = .bool(isPaused)
        object["origin"] = .string(origin.rawValue)
        object["createTime"] = .string(createdAt.description)
        object["updateTime"] = .string(updatedAt.description)
        object["etag"] = .string(etag)
        return object
    }

    /// Names this generation of this webhook.
    package var etag: String { "\(id)-\(generation)" }

    private func headerDocument(_ hidesCredentials: Bool) -> JSONObject {
        var object = JSONObject()
        for header in headers {
            let isHidden = hidesCredentials && ReservedHeaders.isSecret(header.name)
            object[header.name] = .string(isHidden ? WebhookField.hiddenValue : header.value)
        }
        return object
    }

    private var limitsDocument: JSONValue {
        var object = JSONObject()
        if let rate = limits.maxPerSecond { object["maxPerSecond"] = .double(rate) }
        object["timeout"] = .string(limits.timeout.wireText)
        object["minInterval"] = .string(limits.minInterval.wireText)
        return .object(object)
    }

    private var tlsDocument: JSONValue? {
        guard let tls else { return nil }
        var object = JSONObject()
        if let file = tls.caFile { object["caFile"] = .string(file) }
        if let file = tls.certificateFile { object["certificateFile"] = .string(file) }
        if let file = tls.keyFile { object["keyFile"] = .string(file) }
        return .object(object)
    }

    private var fcmDocument: JSONValue? {
        guard let fcm else { return nil }
        var object: JSONObject = ["serviceAccountFile": .string(fcm.serviceAccountFile)]
        if let url = fcm.tokenURL { object["tokenUrl"] = .string(url.text) }
        return .object(object)
    }

    private var verificationDocument: JSONValue {
        var object: JSONObject = ["method": .string(verification.method.rawValue)]
        if let time = verification.verifiedAt { object["verifyTime"] = .string(time.description) }
        if let rate = verification.allowedPerMinute { object["allowedPerMinute"] = .int(rate) }
        return .object(object)
    }
}
