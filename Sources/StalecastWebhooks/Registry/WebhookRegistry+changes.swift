package import StalecastWire

extension WebhookRegistry {
    /// Registers a webhook.
    ///
    /// - Parameters:
    ///   - document: as the API has it; `signing.algorithm` (default `hmac-sha256`) or `signing.secret` chooses the key.
    package func create(_ document: JSONValue, in project: ProjectID) async throws(RegistryProblem) -> RegistryEntry {
        let rules = rules
        var draft = WebhookDraft()
        draft.profile = rules.defaultProfile
        try draft.take(document, files: .within(rules.filesDirectory))
        let (initial, now) = (draft, clock())
        return try await commit { () throws(RegistryProblem) in
            // Reads files, and this thread may block.
            var draft = initial
            try draft.finish(in: project, rules)
            try draft.keepTokensAtGoogle()
            try self.checkRoom(in: project)
            let key = draft.format.isSigned ? try Self.key(document["signing"], at: "signing") : nil
            let entry = try RegistryEntry(
                webhook: Webhook(id: .random(), draft, project: project, at: now),
                keys: key.map { [Signer.SecretKey($0, createdAt: now)] } ?? [])
            return (entry, .install)
        }
    }

    /// Changes settings.
    ///
    /// - Parameters:
    ///   - mask: paths to set; nil sets what the document has.
    ///   - etag: refuses when it is not the webhook's; nil does not ask.
    package func update(
        _ id: WebhookID, in project: ProjectID, _ document: JSONValue, mask: [String]?, etag: String?
    ) async throws(RegistryProblem) -> RegistryEntry {
        let rules = rules
        return try await change(id, in: project, etag: etag) { entry, now throws(RegistryProblem) in
            if let name = entry.webhook.name { throw .configured(name: name) }
            var draft = WebhookDraft(entry.webhook)
            try draft.take(document, mask: mask, files: .within(rules.filesDirectory))
            try draft.finish(in: project, rules)
            try draft.keepTokensAtGoogle()
            try draft.refuseHiddenHeaders(of: entry.webhook, document)
            entry.hasNewSecret = false
            if draft == WebhookDraft(entry.webhook) { return }
            entry.webhook = entry.webhook.applying(draft, at: now)
            if !entry.webhook.format.isSigned {
                entry.keys = []
            } else if entry.keys.isEmpty {
                entry.keys = [Signer.SecretKey(.generate(.hmacSHA256), createdAt: now)]
                entry.hasNewSecret = true
            }
        }
    }

    /// Removes the webhook, and with it everything owed to it.
    package func delete(_ id: WebhookID, in project: ProjectID, etag: String?) async throws(RegistryProblem) {
        _ = try await commit { () throws(RegistryProblem) in
            let entry = try self.entry(id, in: project)
            if let name = entry.webhook.name { throw .configured(name: name) }
            if let etag, etag != entry.webhook.etag { throw .changedMeanwhile }
            return (entry, .uninstall)
        }
    }

    /// Stops or resumes; also for webhooks of the configuration file, and lasting for them too.
    package func setPaused(
        _ isPaused: Bool, _ id: WebhookID, in project: ProjectID
    ) async throws(RegistryProblem) -> RegistryEntry {
        try await change(id, in: project, etag: nil) { entry, now throws(RegistryProblem) in
            if entry.webhook.isPaused == isPaused { return }
            entry.webhook.isPaused = isPaused
            entry.webhook.updatedAt = now
            entry.webhook.generation += 1
        }
    }

    /// Notes that the receiver agreed, unless the URL it was asked at is no longer the webhook's.
    package func recordConsent(
        _ webhook: Webhook, allowedPerMinute: Int?
    ) async throws(RegistryProblem) -> RegistryEntry {
        try await change(webhook.id, in: webhook.project, etag: nil) { entry, now throws(RegistryProblem) in
            guard entry.webhook.url == webhook.url, entry.webhook.verification.method == webhook.verification.method
            else { throw .notNow("the webhook was changed while its receiver was asked; verify it again") }
            entry.webhook.verification.verifiedAt = now
            entry.webhook.verification.allowedPerMinute = allowedPerMinute
            entry.webhook.updatedAt = now
            entry.webhook.generation += 1
        }
    }

    /// The one way of a change: alone, with the etag checked, written and told only when something is different.
    func change(
        _ id: WebhookID, in project: ProjectID, etag: String?,
        _ body: @escaping @Sendable (inout RegistryEntry, Timestamp) throws(RegistryProblem) -> Void
    ) async throws(RegistryProblem) -> RegistryEntry {
        try await commit { () throws(RegistryProblem) in
            var entry = try self.entry(id, in: project)
            if let etag, etag != entry.webhook.etag { throw .changedMeanwhile }
            let generation = entry.webhook.generation
            let now = self.clock()
            try body(&entry, now)
            if entry.webhook.generation == generation { return (entry, .nothing) }
            // Keys that no longer sign must not stay in the record until the next rotation.
            if entry.keys.contains(where: { !$0.isValid(at: now) }) { entry.keys.removeAll { !$0.isValid(at: now) } }
            return (entry, .install)
        }
    }
}
