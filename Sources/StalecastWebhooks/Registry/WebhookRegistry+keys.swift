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
            let choice = try WebhookRegistry.SigningChoice(request, field: "", algorithm: current.key.algorithm)
            let key = try choice.key()
            guard !entry.keys.contains(where: { $0.key == key }) else {
                throw .invalid(field: "secret", "is a key of this webhook already")
            }
            entry.keys =
                [Signer.SecretKey(key, createdAt: now)]
                + Self.retired(entry.keys, until: now.advanced(by: grace), at: now)
            entry.webhook.updatedAt = now
            entry.webhook.generation += 1
        }
    }

    /// The keys so far, those that still sign, none beyond `end`.
    private static func retired(_ keys: [Signer.SecretKey], until end: Timestamp, at now: Timestamp) -> [Signer
        .SecretKey]
    {
        let ended = keys.map { key in
            Signer.SecretKey(key.key, createdAt: key.createdAt, expiresAt: min(key.expiresAt ?? end, end))
        }
        return Array(ended.filter { $0.isValid(at: now) }.prefix(RegistryEntry.maxOldKeys))
    }

    private static func gracePeriod(_ value: JSONValue?) throws(RegistryProblem) -> Duration {
        guard let value, !value.isNull else { return defaultGracePeriod }
        guard let period = value.string.flatMap(Duration.init(wireText:)), gracePeriodRange.contains(period) else {
            throw .invalid(
                field: "gracePeriod", "must be a duration from \"0s\" to \"604800s\", for example \"86400s\"")
        }
        return period
    }

    /// Choice of a webhook's key: a given one, or a new one of an algorithm.
    struct SigningChoice: Sendable {
        private let algorithm: SigningKey.Algorithm
        private let secret: String?
        private let prefix: String

        /// - Parameters:
        ///   - document: `{"algorithm":…,"secret":…}`; nil chooses nothing.
        ///   - field: where the document stands in the request; empty for the request itself.
        ///   - algorithm: the default.
        init(
            _ document: JSONValue?, field: String = "signing", algorithm: SigningKey.Algorithm = .hmacSHA256
        ) throws(RegistryProblem) {
            prefix = field.isEmpty ? "" : field + "."
            if let document, !document.isNull, document.object == nil {
                throw .invalid(field: field, "must be an object, not \(document.kind)")
            }
            let names = SigningKey.Algorithm.allCases.map(\.rawValue).joined(separator: ", ")
            switch document?["algorithm"] {
            case nil, .null?: self.algorithm = algorithm
            case let value?:
                guard let chosen = value.string.flatMap(SigningKey.Algorithm.init) else {
                    throw .invalid(field: prefix + "algorithm", "must be one of \(names)")
                }
                self.algorithm = chosen
            }
            switch document?["secret"] {
            case nil, .null?: secret = nil
            case .string(let text)?: secret = text
            case let value?: throw .invalid(field: prefix + "secret", "must be a string, not \(value.kind)")
            }
        }

        /// - Throws: ``RegistryProblem/invalid(field:_:)`` for a given secret that is none.
        func key() throws(RegistryProblem) -> SigningKey {
            guard let secret else { return .generate(algorithm) }
            do {
                return try SigningKey(secret)
            } catch {
                throw .invalid(field: prefix + "secret", error.description)
            }
        }
    }
}
