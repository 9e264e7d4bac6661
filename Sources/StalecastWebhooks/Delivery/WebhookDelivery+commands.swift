import Dispatch
import StalecastOutbound
package import StalecastWire

/// What is known of one webhook's deliveries.
package struct DeliveryStatus: Sendable {
    package let state: WebhookState
    package let failures: Int
    package let nextAttemptAt: Timestamp?
    package let scopes: [ScopeStatus]

    package struct ScopeStatus: Sendable {
        package let scope: Scope
        package let acknowledged: VersionNumber
        package let current: VersionNumber?
        /// Versions not acknowledged.
        package let lag: Int64
        package let isInFlight: Bool
    }

    /// The member `delivery` of the API's webhook.
    package var json: JSONValue {
        var object: JSONObject = ["consecutiveFailures": .int(failures)]
        if let nextAttemptAt { object["nextAttemptTime"] = .string(nextAttemptAt.description) }
        object["scopes"] = .array(
            scopes.map { status in
                var scope: JSONObject = [
                    "namespace": .string(status.scope.namespace.description),
                    "acknowledgedVersion": .string(String(status.acknowledged)),
                ]
                if let current = status.current { scope["currentVersion"] = .string(String(current)) }
                scope["lag"] = .int(status.lag)
                scope["inFlight"] = .bool(status.isInFlight)
                return .object(scope)
            })
        return .object(object)
    }
}

extension WebhookDelivery {
    /// Nil for a webhook that is not installed.
    package func status(of id: WebhookID) async -> DeliveryStatus? {
        await ask { scheduler in
            guard let target = scheduler.targets[id] else { return nil }
            let now = OutboundEngine.now()
            let next = target.nextStart().flatMap { $0 > now ? $0 - now : nil }
            return DeliveryStatus(
                state: target.state, failures: target.failures,
                nextAttemptAt: next.map { Timestamp(microseconds: Timestamp.now().microseconds + Int64($0 / 1000)) },
                scopes: target.lanes.sorted { $0.scope < $1.scope }.map { lane in
                    DeliveryStatus.ScopeStatus(
                        scope: lane.scope, acknowledged: lane.acknowledged.version,
                        current: lane.newest?.change.version, lag: lane.lag, isInFlight: lane.inFlight > 0)
                })
        }
    }

    /// Sends a test message now, past queue and state, and tells how it went; nil for a webhook that is not there.
    package func test(_ id: WebhookID) async -> DeliveryAttempt? {
        let known = await ask { scheduler -> (Webhook, TemplateChange?)? in
            guard let target = scheduler.targets[id] else { return nil }
            return (target.webhook, target.lanes.compactMap { $0.newest?.change }.max { $0.sequence < $1.sequence })
        }
        guard let (webhook, current) = known else { return nil }
        let topic = webhook.topics.first ?? .pushRC
        let content = Delivery.Content.test(
            nonce: DeliveryNonce.random(), topic: topic, project: webhook.project, current: current)
        let attempt = await attempt(Delivery(webhook: id, content: content), webhook, kind: "test")
        journal.put(.attempt(attempt))
        return attempt
    }

    private func attempt(_ delivery: Delivery, _ webhook: Webhook, kind: String) async -> DeliveryAttempt {
        let begin = Timestamp.now()
        do throws(AttemptProblem) {
            for _ in 0..<2 {
                switch try formatter.request(for: delivery, webhook: webhook, at: begin) {
                case .ready(let request, let messageID):
                    let outcome = await engine.send(request)
                    return DeliveryAttempt(webhook, kind: kind, messageID: messageID, at: begin, outcome)
                case .needsToken(let fetch): try await fetch()
                }
            }
            throw AttemptProblem(.token, "the token could not be used")
        } catch {
            return DeliveryAttempt(
                webhook: webhook.id, scope: nil, version: nil, kind: kind, messageID: "", number: 1, startedAt: begin,
                status: nil, outcome: error.reason.rawValue, problem: error.description, response: "",
                phases: OutboundPhases(), nextAt: nil)
        }
    }

    /// Clears disablement and backoff. False for a webhook that is not there.
    package func enable(_ id: WebhookID) async -> Bool {
        await ask { scheduler in
            guard let target = scheduler.targets[id] else { return false }
            scheduler.enable(target)
            return true
        }
    }

    /// Sends the newest version of a scope, or in the modes `all` and `fifo` the one given, once more.
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
        _ id: WebhookID, where isWanted: @escaping @Sendable (TemplateChange, _ newest: CommitSequence) -> Bool
    ) async -> Int {
        let places = await ask { scheduler in
            (scheduler.targets[id]?.lanes ?? []).compactMap { lane in lane.newest.map { (lane.scope, $0.change) } }
        }
        let isLatest = await ask { $0.targets[id]?.webhook.mode == .latest }
        var chosen: [TemplateChange] = []
        for (scope, newest) in places {
            let all = isLatest ? [newest] : await stored(scope)
            let wanted = all.filter { isWanted($0, newest.sequence) }
            chosen += isLatest ? Array(wanted.suffix(1)) : wanted
        }
        let versions = chosen
        return await ask { scheduler in
            guard let target = scheduler.targets[id] else { return 0 }
            for change in versions { if let lane = target.lane(change.scope) { scheduler.owe(lane, change) } }
            scheduler.consider(target)
            return versions.count
        }
    }

    private func stored(_ scope: Scope) async -> [TemplateChange] {
        let history = scheduler.history
        return await handedOver { handOver in DeliveryReading.queue.async { handOver(history(scope, 0, 100_000)) } }
    }

    /// Owes dead letters again, all or one; returns how many.
    package func redrive(_ id: WebhookID, letter: Int64?) async throws -> Int {
        _ = journal.flush()
        let letters = try database.revive(of: id, letter: letter)
        return await ask { scheduler in
            guard let target = scheduler.targets[id] else { return 0 }
            for letter in letters {
                if let lane = target.lane(letter.scope) { scheduler.owe(lane, letter.sequence, isStored: true) }
            }
            scheduler.consider(target)
            return letters.count
        }
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

extension DeliveryAttempt {
    /// Of a message that is about no version.
    fileprivate init(
        _ webhook: Webhook, kind: String, messageID: String, at begin: Timestamp, _ outcome: OutboundOutcome
    ) {
        var status: Int?
        var problem: String?
        var response = ""
        var name = AttemptClass.of(outcome.result)
        switch outcome.result {
        case .answered(let code, _, let body, _):
            status = code
            problem = (200..<300).contains(code) ? nil : "status \(code)"
            response = String(decoding: body.prefix(Self.maxResponseBytes), as: UTF8.self)
        case .failed(let failure):
            problem = failure.ownerText
            name = failure.publicName
        }
        self.init(
            webhook: webhook.id, scope: nil, version: nil, kind: kind, messageID: messageID, number: 1,
            startedAt: begin, status: status, outcome: name, problem: problem, response: response,
            phases: outcome.phases, nextAt: nil)
    }
}
