import Dispatch
import StalecastOutbound
package import StalecastWire

extension WebhookDelivery {
    /// Nil for a webhook that is not installed.
    package func status(of id: WebhookID) async -> DeliveryStatus? {
        await ask { $0.status(of: id, at: DeliveryLoop.now) }
    }

    /// Sends a test message now, past queue and state, and tells how it went; nil for a webhook that is not there.
    package func test(_ id: WebhookID) async -> DeliveryAttempt? {
        guard let (webhook, lanes, interest) = await ask({ $0.known(id) }) else { return nil }
        var newest: [TemplateChange] = []
        for (scope, known) in lanes {
            // After a restart the newest one may be older than what is in memory.
            let change = if let known { known } else { await stored(scope).last { interest.topic(of: $0) != nil } }
            if let change { newest.append(change) }
        }
        let current = newest.max { $0.sequence < $1.sequence }
        let topic = webhook.topics.first ?? .pushRC
        let content = Delivery.Content.test(
            nonce: Epoch.random().description, topic: topic, project: webhook.project, current: current)
        let attempt = await attempt(Delivery(webhook: id, content: content), webhook, kind: "test")
        journal.put(attempt)
        return attempt
    }

    private func attempt(_ delivery: Delivery, _ webhook: Webhook, kind: String) async -> DeliveryAttempt {
        let begin = Timestamp.now()
        do throws(AttemptProblem) {
            // The first round may only fetch the token with which the second one sends.
            for _ in 0..<2 {
                switch try formatter.request(for: delivery, webhook: RegisteredWebhook(webhook), at: begin) {
                case .ready(let request, let messageID):
                    let outcome = await engine.send(request)
                    return DeliveryAttempt(
                        webhook: webhook.id, kind: kind, messageID: messageID, startedAt: begin,
                        result: AttemptResult(outcome), phases: outcome.phases)
                case .needsToken(let fetch): try await fetch()
                }
            }
            throw AttemptProblem(.token, "the token could not be used")
        } catch {
            return DeliveryAttempt(
                webhook: webhook.id, kind: kind, messageID: "", startedAt: begin, result: AttemptResult(error),
                phases: OutboundOutcome.Phases())
        }
    }

    /// Clears disablement and waits. False for a webhook that is not there.
    package func enable(_ id: WebhookID) async -> Bool { await ask { $0.enabled(id, at: OutboundEngine.now()) } }

    /// Sends the newest version of a scope, or in the modes `all` and `fifo` the one given, once more, without the wait
    /// that failures have caused.
    ///
    /// - Returns: how many deliveries that makes; 0 when the version is not known.
    package func redeliver(_ id: WebhookID, scope: Scope, version: VersionNumber?) async -> Int {
        await recover(id) { change, newest in
            change.scope == scope && (version.map { change.version == $0 } ?? (change.sequence == newest))
        }
    }

    /// Sends what was committed since then once more: every version in the modes `all` and `fifo`, else the newest.
    package func recover(_ id: WebhookID, since: Timestamp) async -> Int {
        await recover(id) { change, _ in change.metadata.updateTime >= since }
    }

    private func recover(
        _ id: WebhookID, where isWanted: (TemplateChange, _ newest: CommitSequence) -> Bool
    ) async -> Int {
        guard let (webhook, lanes, interest) = await ask({ $0.known(id) }) else { return 0 }
        var count = 0
        for (scope, known) in lanes {
            var changes = known.map { [$0] } ?? []
            // After a restart the newest one may be older than what is in memory.
            if webhook.mode != .latest || known == nil { changes = await stored(scope) }
            // A version that none of the webhook's topics announces is not its business, however it is asked for.
            changes.removeAll { interest.topic(of: $0) == nil }
            guard let newest = changes.last?.sequence else { continue }
            if webhook.mode == .latest { changes = changes.suffix(1) }
            let wanted = changes.filter { isWanted($0, newest) }.map(\.sequence)
            count += wanted.count
            if !wanted.isEmpty { await owe(id, scope, wanted, isStored: false) }
        }
        return count
    }

    private func owe(_ id: WebhookID, _ scope: Scope, _ sequences: [CommitSequence], isStored: Bool) async {
        await ask { $0.owe(id, scope, sequences, isStored: isStored, at: OutboundEngine.now()) }
    }

    private func stored(_ scope: Scope) async -> [TemplateChange] {
        let history = history
        return await handedOver { handOver in
            DeliveryLoop.readings.async { handOver(history(scope, 0, Self.maxStored)) }
        }
    }

    /// Owes dead letters again, all or one; returns how many. Those for which the store has nothing to send stay.
    package func redrive(_ id: WebhookID, letter: Int64?) async throws -> Int {
        guard let (webhook, lanes, interest) = await ask({ $0.known(id) }) else { return 0 }
        let (journal, database, history) = (journal, database, history)
        let revived = await handedOver { handOver in
            DeliveryLoop.readings.async {
                // Letters that wait to be written are revived as well.
                _ = journal.flush()
                // In mode latest one message stands for all letters; else each version must be there still.
                var stored: [Scope: Set<CommitSequence>] = [:]
                for (scope, newest) in lanes where webhook.mode != .latest || newest == nil {
                    let changes = history(scope, 0, Self.maxStored)
                    stored[scope] = Set(changes.lazy.filter { interest.topic(of: $0) != nil }.map(\.sequence))
                }
                let (known, isLatest) = (Set(lanes.map(\.scope)), webhook.mode == .latest)
                let result = Result {
                    try database.revive(of: id, letter: letter) { letter in
                        guard known.contains(letter.scope) else { return false }
                        guard let stored = stored[letter.scope] else { return true }
                        return isLatest ? !stored.isEmpty : stored.contains(letter.sequence)
                    }
                }
                handOver(result)
            }
        }
        let letters = try revived.get()
        for (scope, own) in Dictionary(grouping: letters, by: \.scope) {
            await owe(id, scope, own.map(\.sequence).sorted(), isStored: true)
        }
        return letters.count
    }

    /// A webhook's attempts, newest first, and what the next page begins with; blocks.
    package func attempts(
        of id: WebhookID, limit: Int, before: Int64?
    ) throws -> (attempts: [DeliveryAttempt], next: Int64?) {
        _ = journal.flush()
        let rows = try database.attempts(of: id, limit: limit + 1, before: before)
        let page = rows.prefix(limit)
        return (page.map(\.attempt), rows.count > limit ? page.last?.id : nil)
    }

    /// A webhook's dead letters, oldest first, and what the next page begins with; blocks.
    package func deadLetters(
        of id: WebhookID, limit: Int, after: Int64?
    ) throws -> (letters: [DeadLetter], next: Int64?) {
        _ = journal.flush()
        let rows = try database.deadLetters(of: id, limit: limit + 1, after: after)
        let page = rows.prefix(limit)
        return (Array(page), rows.count > limit ? page.last?.id : nil)
    }
}
