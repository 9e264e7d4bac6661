import DequeModule
import Logging
import StalecastOutbound
package import StalecastWire

/// Facts: outcomes of attempts.
extension DeliveryState {
    /// Failures in a row after which the recovery is announced, also after an operator's `enable`.
    static let failuresWorthANotice = 5
    /// Messages in a row that the receiver will never take, after which it counts as failing.
    private static let rejectionsThatFail = 3

    /// An answer, or none.
    ///
    /// - Parameters:
    ///   - result: for the webhook's owner.
    ///   - name: the class of outcome that metrics count; nil: the result's.
    /// - Returns: the attempt, and when its message is tried again; nil when no webhook is interested any more.
    package mutating func finished(
        _ id: UInt64, _ conclusion: AttemptConclusion, _ result: AttemptResult, named name: String? = nil,
        at now: Moment
    ) -> (attempt: Attempt, next: Timestamp?)? {
        guard let (attempt, isSlow) = attempts.remove(id) else { return nil }
        admission.end(attempt.place, isSlow: isSlow)
        guard let endpoint = endpoints[attempt.endpoint] else { return nil }
        endpoint.inFlight -= 1
        defer { touch(endpoint, at: now.monotonic) }
        let (name, isStale) = (name ?? result.name, attempt.generation != endpoint.generation)
        if attempt.heard == nil { endpoint.operational.attempt = nil }
        if conclusion == .cancelled || isStale {
            release(endpoint, attempt, until: 0, isForgotten: isStale)
            return conclusion == .cancelled ? nil : (attempt, nil)
        }
        if result.status != nil { endpoint.isKnown = true }
        if conclusion != .delivered {
            tally.attempts[name, default: 0] += 1
            endpoint.trouble.lastFailure = DeliveryStatus.Failure(time: attempt.startedAt, result: result)
        }
        let (failures, since) = (endpoint.health.failures, endpoint.health.failingSince)
        let next = take(conclusion, endpoint, attempt, result.status, at: now)
        if (failures == 0) != (endpoint.health.failures == 0) { logTurn(endpoint, name, result.status, since: since) }
        return (attempt, next)
    }

    /// One line when attempts begin to fail and one when they succeed again, however many there are. The answer's body and
    /// the URL's path are the owner's, and stay out of the log.
    ///
    /// - Parameter since: time at which they began to fail; nil when they begin now.
    private mutating func logTurn(_ endpoint: Endpoint, _ name: String, _ status: Int?, since: Timestamp?) {
        let fails = endpoint.health.failures > 0
        var metadata: Logger.Metadata = [
            "webhook": "\(endpoint.id)", "host": "\(endpoint.webhook.url.host)", "outcome": "\(name)",
        ]
        if let status { metadata["status"] = "\(status)" }
        if !fails, let since { metadata["failedSince"] = "\(since)" }
        log(
            fails ? .warning : .info, fails ? "a webhook's attempts fail" : "a webhook's attempts succeed again",
            metadata)
    }

    private mutating func take(
        _ conclusion: AttemptConclusion, _ endpoint: Endpoint, _ attempt: Attempt, _ status: Int?, at now: Moment
    ) -> Timestamp? {
        switch conclusion {
        case .delivered:
            delivered(endpoint, attempt, at: now)
            return nil
        case .hopeless:
            tally.failed += 1
            giveUp(endpoint, attempt, "rejected", status, at: now)
            rejected(endpoint, attempt, at: now)
            return nil
        case .refused:
            release(endpoint, attempt, until: 0)
            disable(endpoint, "refused_by_receiver", at: now)
            return nil
        case .gone: return gone(endpoint, attempt, status, at: now)
        case .failed(let wait):
            endpoint.trouble.goneSince = 0
            return failed(endpoint, attempt, wait, status, at: now)
        case .cancelled: return nil
        }
    }

    /// The message is owed as before.
    ///
    /// - Parameter isForgotten: the attempt does not count as one.
    private func release(_ endpoint: Endpoint, _ attempt: Attempt, until time: UInt64, isForgotten: Bool = false) {
        guard let heard = attempt.heard, let lane = endpoint.lane(heard.change.scope) else {
            if !endpoint.operational.isEmpty { endpoint.operational.events[0].notBefore = time }
            return
        }
        let interest = ScopeLog.Interest(topics: endpoint.topics, routes: routes)
        let isWanted =
            endpoint.lanes[lane].extras.contains(heard.sequence)
            || endpoint.lanes[lane].record.cursor.sequence < heard.sequence && interest.topic(of: heard.change) != nil
        if isForgotten || !isWanted || (attempt.folds != (endpoint.mode == .latest)) {
            endpoint.lanes[lane].forget(heard.sequence)
        } else {
            endpoint.lanes[lane].hold(heard.sequence, until: time)
        }
    }

    // MARK: Success

    private mutating func delivered(_ endpoint: Endpoint, _ attempt: Attempt, at now: Moment) {
        tally.delivered += 1
        if let heard = attempt.heard, heard.announcedAt > 0 {
            let seconds = Double(now.monotonic - min(now.monotonic, heard.announcedAt)) / 1e9
            tally.latency.record(seconds: seconds)
            if attempt.place == .healthy { tally.latencyOfHealthy.record(seconds: seconds) }
        }
        let failures = endpoint.health.failures
        let since =
            endpoint.trouble.onTrialSince
            ?? (failures >= Self.failuresWorthANotice ? endpoint.health.failingSince : nil)
        endpoint.trouble.onTrialSince = nil
        endpoint.trouble.rejections = 0
        endpoint.gate.notBefore = 0
        if failures > 0 || endpoint.health.failingSince != nil {
            endpoint.forgive()
            putHealth(endpoint)
        }
        if case .stale(let content) = attempt.content, attempt.folds {
            tally.coalesced += content.coalesced
        }
        settle(endpoint, attempt, isAcknowledged: true)
        if let since {
            tell("webhook.recovered", about: endpoint, ["failingSince": .described(since)], at: now)
        }
    }

    /// The message is done with, by delivery or as a dead letter.
    private mutating func settle(_ endpoint: Endpoint, _ attempt: Attempt, isAcknowledged: Bool) {
        guard let change = attempt.heard?.change, let lane = endpoint.lane(change.scope) else {
            if !endpoint.operational.isEmpty { endpoint.operational.events.removeFirst() }
            return
        }
        let before = endpoint.lanes[lane].record
        let (extras, isBeyond) = endpoint.lanes[lane].settle(
            change, isAcknowledged: isAcknowledged, folds: attempt.folds || endpoint.mode == .latest)
        if isBeyond { put(.beyond(endpoint.id, change.scope, ScopeLog.Place(change))) }
        if !extras.isEmpty { put(.extras(endpoint.id, change.scope, extras, areOwed: false)) }
        if endpoint.lanes[lane].record != before { putLane(endpoint, lane) }
    }

    // MARK: Failure

    private mutating func failed(
        _ endpoint: Endpoint, _ attempt: Attempt, _ wait: AttemptConclusion.Wait, _ status: Int?, at now: Moment
    ) -> Timestamp? {
        tally.failed += 1
        let pace = configuration.pace
        let lane = attempt.heard.flatMap { endpoint.lane($0.change.scope) }
        let begun = lane.flatMap { lane in attempt.heard.flatMap { endpoint.lanes[lane].tries[$0.sequence] } }
        let isOneVersion = endpoint.mode != .latest && begun != nil
        var delay = pace.backoff(
            after: isOneVersion ? attempt.number : endpoint.health.failures + 1, isOneVersion: isOneVersion,
            using: &random)
        switch wait {
        case .backoff: break
        case .atLeast(let least): delay = max(delay, least)
        case .patience(let asked):
            delay = max(delay, asked)
            endpoint.gate.patienceUntil = max(endpoint.gate.patienceUntil, now.monotonic + asked.nanoseconds)
        }
        endpoint.health.failures += 1
        endpoint.trouble.lastFailureAt = now.monotonic
        if case .patience = wait {} else { endpoint.fails(at: now, since: attempt.startedAt, pace) }
        let next = now.monotonic + delay.nanoseconds
        if isExhausted(endpoint, attempt, begun, at: next) {
            giveUp(endpoint, attempt, "exhausted", status, at: now)
        } else {
            release(endpoint, attempt, until: next)
        }
        // Another version may be taken at once where only this one is refused.
        if !isMessagesOwn(endpoint, status) { endpoint.gate.notBefore = max(endpoint.gate.notBefore, next) }
        putHealth(endpoint)
        disableIfLongFailing(endpoint, at: now)
        return endpoint.health.disabledReason == nil ? now.after(delay) : nil
    }

    /// True while a refusal may concern one version only: in mode `all` a receiver that refuses one may take the
    /// others, a few times.
    private func isMessagesOwn(_ endpoint: Endpoint, _ status: Int?) -> Bool {
        guard endpoint.mode == .all, let status else { return false }
        return (400..<500).contains(status) && status != 429 && endpoint.health.failures < 5
    }

    /// Whether the message's time is over at its next attempt, so that it becomes a dead letter.
    private func isExhausted(_ endpoint: Endpoint, _ attempt: Attempt, _ begun: Try?, at next: UInt64) -> Bool {
        if attempt.heard == nil { return attempt.number >= Endpoint.maxOperationalAttempts }
        guard let begun, endpoint.mode == .all || endpoint.mode == .fifo(onExhaustion: .advance) else { return false }
        return next > begun.firstAt + configuration.pace.versionWindow.nanoseconds
    }

    private mutating func giveUp(
        _ endpoint: Endpoint, _ attempt: Attempt, _ reason: String, _ status: Int?, at now: Moment
    ) {
        if let change = attempt.heard?.change {
            bury(
                DeadLetter(
                    scope: change.scope, version: change.version, sequence: change.sequence, reason: reason,
                    attempts: attempt.number, lastStatus: status, movedAt: now.wall), of: endpoint.id)
            log(
                .warning, "a version was moved to a webhook's dead letters",
                [
                    "webhook": "\(endpoint.id)", "scope": "\(change.scope)", "version": "\(change.version)",
                    "reason": "\(reason)",
                ])
            // Stores the receiver's digest with the dead letter, to notice a changed URL later.
            if endpoint.health.receiver == nil { putHealth(endpoint) }
        }
        settle(endpoint, attempt, isAcknowledged: false)
    }

    /// One message that is never taken says little about the receiver, all of them do.
    private mutating func rejected(_ endpoint: Endpoint, _ attempt: Attempt, at now: Moment) {
        guard attempt.heard != nil else { return }
        endpoint.trouble.rejections += 1
        guard endpoint.trouble.rejections >= Self.rejectionsThatFail else { return }
        endpoint.fails(at: now, since: attempt.startedAt, configuration.pace)
        putHealth(endpoint)
        disableIfLongFailing(endpoint, at: now)
    }

    private mutating func gone(
        _ endpoint: Endpoint, _ attempt: Attempt, _ status: Int?, at now: Moment
    ) -> Timestamp? {
        let needed = configuration.pace.goneAfter
        if endpoint.trouble.goneSince > 0, now.monotonic >= endpoint.trouble.goneSince + needed.nanoseconds {
            release(endpoint, attempt, until: 0)
            disable(endpoint, "gone", at: now)
            return nil
        }
        if endpoint.trouble.goneSince == 0 { endpoint.trouble.goneSince = now.monotonic }
        return failed(endpoint, attempt, .atLeast(needed), status, at: now)
    }

    private mutating func disableIfLongFailing(_ endpoint: Endpoint, at now: Moment) {
        guard endpoint.health.failedAttempts >= 10,
            endpoint.health.failingTime >= configuration.disableAfter.microseconds
        else { return }
        disable(endpoint, "failing", at: now)
    }

    private mutating func disable(_ endpoint: Endpoint, _ reason: String, at now: Moment) {
        guard endpoint.health.disabledReason == nil else { return }
        endpoint.health.disabledReason = reason
        endpoint.health.disabledSince = now.wall
        putHealth(endpoint)
        log(.warning, "webhook disabled", ["webhook": "\(endpoint.id)", "reason": "\(reason)"])
        act(.disabled(endpoint.webhook, reason: reason))
        let attempts = JSONValue.int(endpoint.health.failedAttempts)
        tell("webhook.disabled", about: endpoint, ["reason": .string(reason), "failedAttempts": attempts], at: now)
    }

    // MARK: Messages about webhooks

    private mutating func tell(_ type: String, about subject: Endpoint, _ data: JSONObject, at now: Moment) {
        var data = data
        data["webhook"] = .string(subject.id.description)
        data["url"] = .string(subject.webhook.url.withoutQuery)
        tell(type, in: subject.webhook.project, data, to: .webhookOperations, but: subject.number, at: now)
    }

    /// A release changed.
    ///
    /// - Parameter type: for example `release.paused`.
    mutating func changed(_ type: String, releaseIn project: ProjectID, _ data: JSONObject, at now: Moment) {
        tell(type, in: project, data, to: .releaseOperations, at: now)
    }

    private mutating func tell(
        _ type: String, in project: ProjectID, _ data: JSONObject, to topic: TopicName, but subject: Int? = nil,
        at now: Moment
    ) {
        let nonce = Epoch.random(using: &random).description
        let event = Delivery.OperationalEvent(
            type: type, project: project, time: now.wall, nonce: nonce, data: .object(data))
        for number in endpoints.hearers.sorted() where number != subject {
            guard let endpoint = endpoints[number], endpoint.webhook.project == event.project,
                endpoint.webhook.topics.contains(topic)
            else { continue }
            if endpoint.operational.events.count >= Endpoint.maxOperationalEvents {
                // Spares the first event while an attempt of it is under way: the outcome is booked on that place.
                endpoint.operational.events.remove(at: endpoint.operational.attempt != nil ? 1 : 0)
            }
            endpoint.operational.events.append(Endpoint.PendingEvent(event: event))
            touch(endpoint, at: now.monotonic)
        }
    }
}
