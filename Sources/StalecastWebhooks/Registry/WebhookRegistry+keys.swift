package import StalecastWire

extension WebhookRegistry {
    /// Time that an old key goes on signing unless the request says otherwise: 24 h.
    package static let defaultGracePeriod = Duration.seconds(86_400)
    /// 0 makes the old keys worthless at once.
    package static let gracePeriodRange = Duration.zero...Duration.seconds(7 * 86_400)

    /// Gives the webhook a new key; every key so far signs beside it until the grace period is over.
    ///
    /// - Parameter request: `{"gracePeriod":"86400s","algorithm":…,"secret":…}`, all optional; the algorithm stays.
    package func rotateSecret(
        of id: WebhookID, in project: ProjectID, _ request: JSONValue
    ) async throws(RegistryProblem) -> RegistryEntry {
        let grace = try Self.gracePeriod(request["gracePeriod"])
        return try await change(id, in: project, etag: nil) { entry, now throws(RegistryProblem) in
            if let name = entry.webhook.name { throw .configured(name: name) }
            guard let current = entry.keys.first else {
                throw .notNow("a webhook of format \(entry.webhook.format.rawValue) does not sign, so it has no secret")
            }
            let key = try Self.key(request, at: "", default: current.key.algorithm)
            guard !entry.keys.contains(where: { $0.key == key }) else {
                throw .invalid(field: "secret", "is a key of this webhook already")
            }
            let end = now.advanced(by: grace)
            let old = entry.keys.map { key in
                // A further rotation must not lengthen the life of a key that is already on its way out.
                Signer.SecretKey(key.key, createdAt: key.createdAt, expiresAt: min(key.expiresAt ?? end, end))
            }
            entry.keys =
                [Signer.SecretKey(key, createdAt: now)]
                + old.filter { $0.isValid(at: now) }.prefix(RegistryEntry.maxOldKeys)
            entry.webhook.updatedAt = now
            entry.webhook.generation += 1
        }
    }

    private static func gracePeriod(_ value: JSONValue?) throws(RegistryProblem) -> Duration {
        guard let value, !value.isNull else { return defaultGracePeriod }
        guard let period = value.string.flatMap(Duration.init(wireText:)), gracePeriodRange.contains(period) else {
            throw .invalid(
                field: "gracePeriod", "must be a duration from \"0s\" to \"604800s\", for example \"86400s\"")
        }
        return period
    }

    /// Key that a request gives (`secret`), or a new one of the algorithm that it chooses.
    ///
    /// - Parameters:
    ///   - document: `{"algorithm":…,"secret":…}`; nil chooses nothing.
    ///   - field: place of the document in the request; empty for the request itself.
    static func key(
        _ document: JSONValue?, at field: String, default algorithm: SigningKey.Algorithm = .hmacSHA256
    ) throws(RegistryProblem) -> SigningKey {
        let prefix = field.isEmpty ? "" : field + "."
        if let document, !document.isNull, document.object == nil {
            throw .invalid(field: field, "must be an object, not \(document.kind)")
        }
        var algorithm = algorithm
        if let value = document?["algorithm"], !value.isNull {
            guard let chosen = value.string.flatMap(SigningKey.Algorithm.init) else {
                let names = SigningKey.Algorithm.allCases.map(\.rawValue).joined(separator: ", ")
                throw .invalid(field: prefix + "algorithm", "must be one of \(names)")
            }
            algorithm = chosen
        }
        guard let value = document?["secret"], !value.isNull else { return .generate(algorithm) }
        guard let secret = value.string else {
            throw .invalid(field: prefix + "secret", "must be a string, not \(value.kind)")
        }
        do { return try SigningKey(secret) } catch { throw .invalid(field: prefix + "secret", error.description) }
    }
}
