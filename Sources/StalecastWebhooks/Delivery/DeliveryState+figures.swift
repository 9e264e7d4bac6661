import Logging
package import StalecastHub
package import StalecastWire

/// Questions, and the rules that must hold at any time.
extension DeliveryState {
    /// Nil for a webhook that is not there.
    package func status(of id: WebhookID, at now: Moment) -> DeliveryStatus? {
        guard let endpoint = endpoints[id] else { return nil }
        var next: Timestamp?
        if case .wait(let time) = endpoint.next(at: now.monotonic, logs, routes) {
            next = now.after(.nanoseconds(Int64(clamping: time - now.monotonic)))
        }
        return DeliveryStatus(
            state: endpoint.state, failures: endpoint.health.failures, nextAttemptAt: next,
            lastFailure: endpoint.trouble.lastFailure,
            scopes: endpoint.lanes.filter(\.isActive).sorted { $0.scope < $1.scope }.map { lane in
                DeliveryStatus.ScopeStatus(
                    scope: lane.scope, acknowledged: lane.acknowledged, current: lane.current, lag: lane.lag,
                    owed: endpoint.mode == .latest ? min(lane.lag, 1) : lane.lag, isInFlight: lane.inFlight > 0)
            })
    }

    /// The webhook, and its scopes with the newest change of each that it heard of in this run; nil for one that is not
    /// there.
    package func known(
        _ id: WebhookID
    ) -> (webhook: Webhook, lanes: [(scope: Scope, newest: TemplateChange?)], interest: ScopeLog.Interest)? {
        endpoints[id].map { endpoint in
            (
                endpoint.webhook, endpoint.lanes.filter(\.isActive).map { ($0.scope, $0.newest?.change) },
                ScopeLog.Interest(topics: endpoint.webhook.topics, routes: routes)
            )
        }
    }

    /// Sums of all deliveries so far, with the gauges.
    package func tally(at now: Timestamp) -> DeliveryTally {
        var tally = tally
        // Counting each by its name would hash a text.
        if tally.delivered > 0 { tally.attempts["2xx", default: 0] += tally.delivered }
        for lane in Admission.Class.allCases { tally.underWay["\(lane)"] = admission.underWay[lane.rawValue] }
        tally.underWay["slow"] = admission.slow
        tally.waiting = admission.waiting
        for name in ["active", "unverified", "paused", "failing", "disabled"] { tally.targets[name] = 0 }
        for endpoint in endpoints.all {
            tally.targets[endpoint.state.name, default: 0] += 1
            if endpoint.health.failures > 0 { tally.failing += 1 }
            guard endpoint.isDeliverable else { continue }
            for lane in endpoint.lanes where lane.isActive && lane.lag > 0 {
                tally.longestLag = max(tally.longestLag, lane.lag)
                guard let newest = lane.newest else { continue }
                let age = Double(now.microseconds - newest.change.metadata.updateTime.microseconds) / 1e6
                tally.oldestPending = max(tally.oldestPending, age)
            }
        }
        return tally
    }

    /// Counts of the webhooks that hear a scope and have a version of it, or a newer one.
    package func reach(of scope: Scope, _ version: VersionNumber) -> WebhookCounts {
        var reach = WebhookCounts()
        for endpoint in endpoints.all where endpoint.isDeliverable {
            guard let lane = endpoint.lanes.first(where: { $0.scope == scope && $0.isActive }),
                let newest = lane.newest?.change.version, newest >= version
            else { continue }
            if lane.lag == 0 || lane.acknowledged >= version {
                reach.delivered += 1
            } else {
                reach.owed += 1
                if endpoint.health.failures > 0 { reach.failing += 1 }
            }
        }
        return reach
    }

    // MARK: What must not be

    /// Looks for webhooks that owe something and that will not be looked at again. There are none; should there be,
    /// they are counted, told and looked at.
    package mutating func sweep(at now: UInt64) {
        for endpoint in endpoints.all where isStuck(endpoint, at: now) {
            tally.stuck += 1
            log(.error, "a webhook was owed something and not looked at", ["webhook": "\(endpoint.id)"])
            touch(endpoint, at: now)
        }
    }

    private func isStuck(_ endpoint: Endpoint, at now: UInt64) -> Bool {
        if endpoint.waiting.isQueued { return false }
        switch endpoint.next(at: now, logs, routes) {
        case .send, .operational, .read: return endpoint.waiting.alarmAt > now
        case .wait(let time): return endpoint.waiting.alarmAt > time
        case .nothing:
            let isWorkedOn = endpoint.inFlight > 0 || endpoint.lanes.contains { $0.reads.current != nil }
            let owes = endpoint.lanes.contains { $0.isActive && $0.lag > 0 }
            return owes && endpoint.isDeliverable && !isWorkedOn
        }
    }

    /// Everything that should agree and does not, in sentences.
    package func checkConsistency(at now: UInt64) -> [String] {
        var problems: [String] = []
        func check(_ isTrue: Bool, _ sentence: @autoclosure () -> String) { if !isTrue { problems.append(sentence()) } }
        let queued = admission.queues.flatMap(\.self).filter { endpoints[$0] != nil }
        check(Set(queued).count == queued.count, "a webhook is queued twice")
        check(Set(queued) == Set(endpoints.all.filter(\.waiting.isQueued).map(\.number)), "queues and marks differ")
        let places = admission.underWay.reduce(0, +) + admission.slow
        check(places == attempts.count, "\(places) places are taken by \(attempts.count) attempts")
        problems += endpoints.problems
        for endpoint in endpoints.all {
            let id = endpoint.id
            let own = attempts.all.filter { $0.endpoint == endpoint.number }.map(\.id)
            check(Set(own) == Set(endpoint.attempts), "\(id) has other attempts under way than its lanes say")
            check(own.count == endpoint.inFlight, "\(id) counts \(endpoint.inFlight) attempts of \(own.count)")
            check(!isStuck(endpoint, at: now), "\(id) is stuck")
            for lane in endpoint.lanes {
                check(members[lane.scope]?.contains(endpoint.number) == true, "\(id) does not hear of \(lane.scope)")
                for problem in lane.problems(endpoint.mode) { check(false, "\(id) \(lane.scope): \(problem)") }
            }
        }
        return problems
    }
}

extension Lane {
    fileprivate func problems(_ mode: DeliveryMode) -> [String] {
        var problems: [String] = []
        let sequences = tries.all.map(\.sequence)
        if sequences != sequences.sorted() { problems.append("out of order") }
        if Set(sequences).count != sequences.count { problems.append("one version is begun twice") }
        if beyond.contains(where: { $0.key <= record.cursor.sequence }) { problems.append("settled twice") }
        if tries.all.contains(where: { beyond[$0.sequence] != nil && !extras.contains($0.sequence) }) {
            problems.append("tried although settled")
        }
        return problems
    }
}
