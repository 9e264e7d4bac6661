import GRDB
package import StalecastWire

/// A webhook of the configuration file.
package struct ConfiguredWebhook: Sendable, Equatable {
    /// Unique within its project; with it, the webhook's identity.
    package let name: String
    package let project: ProjectID
    package let draft: WebhookDraft
    /// The current one first; empty for formats that do not sign.
    package let keys: [SigningKey]

    package init(name: String, project: ProjectID, draft: WebhookDraft, keys: [SigningKey]) {
        self.name = name
        self.project = project
        self.draft = draft
        self.keys = keys
    }

    package var id: WebhookID { .configured(name, project: project) }
}

extension WebhookRegistry {
    /// Makes the webhooks of the configuration file exactly these. What was decided at run time (paused, consent)
    /// stays with those that stay. Blocks; call it before ``observe(_:)`` at start and again at a reload.
    ///
    /// - Throws: ``RegistryProblem``; nothing is changed when one of them breaks the rules or cannot be written.
    package func setConfigured(_ configured: [ConfiguredWebhook]) throws(RegistryProblem) {
        let (rules, now) = (rules, clock())
        var finished: [(ConfiguredWebhook, WebhookDraft)] = []
        for webhook in configured {
            var draft = webhook.draft
            do { try draft.finish(in: webhook.project, rules) } catch { throw error.about(webhook.name) }
            finished.append((webhook, draft))
        }
        do {
            try database.queue.writeWithoutTransaction { db in
                let installed = self.webhooks.filter { $0.origin == .configuration }.map(\.id)
                let gone = self.rememberedIDs.union(installed).subtracting(configured.map(\.id))
                var changed: [RegistryEntry] = []
                try db.inTransaction {
                    for id in gone { try self.database.remove(id, db) }
                    for (webhook, draft) in finished {
                        guard let entry = try self.entry(of: webhook, draft, at: now) else { continue }
                        try self.database.store(entry, revision: nil, db)
                        changed.append(entry)
                    }
                    return .commit
                }
                // After the commit: listeners must not hear of what is rolled back.
                gone.forEach(self.uninstalled)
                for entry in changed { self.installed(entry) }
            }
        } catch {
            throw RegistryProblem(error)
        }
    }

    /// Entry that the webhook becomes; nil when it is that already.
    private func entry(
        of webhook: ConfiguredWebhook, _ draft: WebhookDraft, at now: Timestamp
    ) throws(RegistryProblem) -> RegistryEntry? {
        let keys = webhook.keys.map { Signer.SecretKey($0, createdAt: now) }
        guard let known = known(webhook.id) else {
            let new = try Webhook(id: webhook.id, draft, project: webhook.project, name: webhook.name, at: now)
            return RegistryEntry(webhook: new, keys: keys)
        }
        var draft = draft
        draft.isPaused = known.entry.webhook.isPaused
        draft.keepConsent(to: known.entry.webhook)
        let isSame = WebhookDraft(known.entry.webhook) == draft
        let hasSameKeys = known.entry.keys.map(\.key) == webhook.keys
        if isSame, hasSameKeys, known.isInstalled { return nil }
        let next = isSame ? known.entry.webhook : known.entry.webhook.applying(draft, at: now)
        return RegistryEntry(webhook: next, keys: hasSameKeys ? known.entry.keys : keys)
    }
}

extension RegistryProblem {
    /// Problem that names the webhook it is about, one of several.
    fileprivate func about(_ name: String) -> RegistryProblem {
        guard case .invalid(let field, let sentence) = self else { return self }
        return .invalid(field: "webhook \(name): \(field)", sentence)
    }
}
