import Logging
import StalecastOutbound
import StalecastWire

extension DeliveryScheduler {
    /// An answer, or none.
    func finish(_ run: Run, _ outcome: OutboundOutcome) {
        end(run)
        // Nobody is interested in the attempts of a webhook that was removed meanwhile.
        guard !run.target.isRemoved else { return }
        if case .failed(let failure) = outcome.result, failure.reason == .cancelled {
            // At shutdown: it is owed still.
            restore(run)
            return
        }
        let target = run.target
        let name = AttemptClass.of(outcome.result)
        tally.attempts[name, default: 0] += 1
        tally.phases.add(outcome.phases)
        if outcome.reusedConnection { tally.reusedConnections += 1 }
        if case .answered(let status, _, _, _) = outcome.result {
            target.isKnown = true
            if status == 401 || status == 403 { formatter.answered(status: status, webhook: target.webhook) }
        }
        let verdict = Verdict(outcome, configuration.pace, at: run.startedAt)
        let next = settle(run, verdict, status: outcome.status)
        log(run, outcome, name, next: next)
        consider(target)
    }

    /// No request could be made.
    func couldNotStart(_ run: Run, _ problem: AttemptProblem) {
        end(run)
        guard !run.target.isRemoved else { return }
        let name = problem.reason.rawValue
        tally.attempts[name, default: 0] += 1
        let next = settle(run, problem.reason == .unsupported ? .hopeless : .failed(.backoff), status: nil)
        record(run, status: nil, outcome: name, problem: problem.description, next: next)
        consider(run.target)
    }

    /// The attempt never took place.
    private func restore(_ run: Run) {
        switch run.job {
        case .newest: break
        case .owed(let owed): run.lane?.change(owed) { $0.isInFlight = false }
        case .notice: break
        }
    }

    /// Takes the verdict in; returns when the message is tried again.
    private func settle(_ run: Run, _ verdict: Verdict, status: Int?) -> Timestamp? {
        switch verdict {
        case .delivered:
            delivered(run)
            return nil
        case .hopeless:
            tally.failed += 1
            giveUp(run, "rejected", status)
            return nil
        case .refused:
            disable(run.target, "refused_by_receiver")
            restore(run)
            return nil
        case .gone: return gone(run, status)
        case .failed(let wait):
            run.target.goneSince = 0
            return failed(run, wait, status)
        }
    }

    // MARK: Success

    private func delivered(_ run: Run) {
        tally.delivered += 1
        let target = run.target
        if let heard = run.job.heard, heard.announcedAt > 0 {
            let seconds = Double(OutboundEngine.now() - heard.announcedAt) / 1e9
            tally.latency.add(seconds)
            if run.place == .healthy { tally.latencyOfHealthy.add(seconds) }
        }
        let failures = target.failures
        let wasFailing = target.failingSince
        if failures > 0 || target.failingSince != nil {
            target.health = TargetHealth()
            target.goneSince = 0
            target.notBefore = 0
            journal.put(.health(target.id, target.health))
        }
        acknowledge(run)
        let since = target.onTrialSince ?? (failures >= Self.failuresWorthANotice ? wasFailing : nil)
        target.onTrialSince = nil
        if let since { tellRecovered(target, since: since) }
    }

    /// After so many failures in a row the recovery is announced, and after an operator's `enable`.
    static let failuresWorthANotice = 5

    private func acknowledge(_ run: Run) {
        switch run.job {
        case .newest(let heard): if let lane = run.lane { acknowledge(heard.change, lane) }
        case .owed(let owed): if let lane = run.lane { settled(owed, lane) }
        case .notice: if !run.target.notices.isEmpty { run.target.notices.removeFirst() }
        }
    }

    private func acknowledge(_ change: TemplateChange, _ lane: Lane) {
        lane.isWanted = false
        guard change.sequence > lane.acknowledged.sequence else { return }
        tally.coalesced += Int(max(0, change.version - lane.acknowledged.version - 1))
        lane.acknowledged = (change.version, change.sequence)
        if lane.readThrough < change.sequence { (lane.readVersion, lane.readThrough) = lane.acknowledged }
        journal.put(.acknowledged(lane.target.id, lane.scope, change.version, change.sequence))
    }

    /// A version of `all` or `fifo` is done with, by delivery or as a dead letter.
    private func settled(_ owed: Owed, _ lane: Lane) {
        let id = lane.target.id
        let change = owed.heard.change
        lane.owed.removeAll { $0.heard.change.sequence == change.sequence && $0.isExtra == owed.isExtra }
        if owed.isExtra {
            journal.put(.extra(id, lane.scope, change.sequence, isOwed: false))
        } else if let first = lane.owed.first(where: { !$0.isExtra }), first.heard.change.sequence < change.sequence {
            lane.beyond.insert(change.sequence)
            journal.put(.beyond(id, lane.scope, change.sequence))
        } else {
            advance(lane, past: change)
        }
        refill(lane)
    }

    /// The oldest owed version was acknowledged: the cursor moves to just before the next one.
    private func advance(_ lane: Lane, past change: TemplateChange) {
        let next = lane.owed.first { !$0.isExtra }
        let through = next.map { $0.heard.change.sequence - 1 } ?? lane.readThrough
        let version = max(change.version, next.map { $0.heard.change.version - 1 } ?? lane.readVersion)
        lane.acknowledged = (version, max(through, change.sequence))
        lane.beyond = lane.beyond.filter { $0 > lane.acknowledged.sequence }
        journal.put(.acknowledged(lane.target.id, lane.scope, version, lane.acknowledged.sequence))
    }

    // MARK: Failure

    private func failed(_ run: Run, _ wait: Verdict.Wait, _ status: Int?) -> Timestamp? {
        tally.failed += 1
        let target = run.target
        let now = OutboundEngine.now()
        var delay = backoff(run)
        var isPatience = false
        if case .atLeast(let least, let asked) = wait {
            delay = max(delay, least)
            isPatience = asked
        }
        target.isAskedForPatience = isPatience
        target.failures += 1
        target.lastFailureAt = now
        if !isPatience {
            target.failedAttempts += 1
            if target.failingSince == nil { target.failingSince = run.startedAt }
        }
        let next = now + delay.nanoseconds
        hold(run, until: next, status)
        if isMessagesOwn(run, status) { target.failures = min(target.failures, 4) } else { target.notBefore = next }
        journal.put(.health(target.id, target.health))
        disableIfLongFailing(target)
        return target.disabled == nil ? Timestamp(microseconds: Timestamp.now().microseconds + delay.microseconds) : nil
    }

    private func backoff(_ run: Run) -> Duration {
        let pace = configuration.pace
        if case .owed(let owed) = run.job {
            return Backoff(floor: pace.floor, base: pace.versionBase, cap: pace.versionCap).wait(
                after: owed.attempts, using: &random)
        }
        return Backoff(floor: pace.floor, base: pace.base, cap: pace.cap).wait(
            after: run.target.failures + 1, using: &random)
    }

    /// In mode `all` a receiver that refuses one version may take the others; a few times that is believed.
    private func isMessagesOwn(_ run: Run, _ status: Int?) -> Bool {
        guard run.target.mode == .all, let status else { return false }
        return (400..<500).contains(status) && status != 429 && run.target.failures < 5
    }

    /// Keeps the message for later, or moves it to the dead letters when its time is over.
    private func hold(_ run: Run, until next: UInt64, _ status: Int?) {
        switch run.job {
        case .newest: break
        case .notice:
            guard !run.target.notices.isEmpty else { break }
            if run.number >= Target.maxNoticeAttempts {
                run.target.notices.removeFirst()
            } else {
                run.target.notices[0].notBefore = next
            }
        case .owed(let owed):
            let window = configuration.pace.versionWindow.nanoseconds
            if next > owed.firstAt + window, run.target.mode != .fifo(onExhaustion: .block) {
                return giveUp(run, "exhausted", status)
            }
            run.lane?.change(owed) {
                $0.isInFlight = false
                $0.notBefore = next
            }
        }
    }

    private func giveUp(_ run: Run, _ reason: String, _ status: Int?) {
        guard let lane = run.lane, let change = run.job.heard?.change else {
            if !run.target.notices.isEmpty { run.target.notices.removeFirst() }
            return
        }
        tally.deadLetters += 1
        let letter = DeadLetter(
            id: 0, scope: lane.scope, version: change.version, sequence: change.sequence, reason: reason,
            attempts: run.number, lastStatus: status, movedAt: .now())
        journal.put(.dead(run.target.id, letter))
        logger.warning(
            "a version was moved to a webhook's dead letters",
            metadata: [
                "webhook": "\(run.target.id)", "scope": "\(lane.scope)", "version": "\(change.version)",
                "reason": "\(reason)",
            ])
        switch run.job {
        case .newest:
            lane.givenUp = max(lane.givenUp, change.sequence)
            lane.isWanted = false
        case .owed(let owed): settled(owed, lane)
        case .notice: break
        }
    }

    private func gone(_ run: Run, _ status: Int?) -> Timestamp? {
        let now = OutboundEngine.now()
        let target = run.target
        let needed = configuration.pace.goneAfter
        if target.goneSince > 0, now >= target.goneSince + needed.nanoseconds {
            disable(target, "gone")
            restore(run)
            return nil
        }
        if target.goneSince == 0 { target.goneSince = now }
        return failed(run, .atLeast(needed, isPatience: false), status)
    }

    private func disableIfLongFailing(_ target: Target) {
        guard let since = target.failingSince, target.failedAttempts >= 10 else { return }
        let time = Timestamp.now().microseconds - since.microseconds
        if time >= configuration.disableAfter.microseconds { disable(target, "failing") }
    }

    private func disable(_ target: Target, _ reason: String) {
        guard target.disabled == nil else { return }
        target.disabled = (reason, .now())
        journal.put(.health(target.id, target.health))
        logger.warning(
            "webhook disabled", metadata: ["webhook": "\(target.id)", "reason": "\(reason)"])
        tellDisabled(target, reason)
    }

    // MARK: The attempt log

    private func log(_ run: Run, _ outcome: OutboundOutcome, _ name: String, next: Timestamp?) {
        switch outcome.result {
        case .answered(let status, let headers, let body, _):
            let location = (300..<400).contains(status) ? headers["location"] : nil
            let moved = "redirects are not followed" + (location.map { "; it points to \($0.prefix(200))" } ?? "")
            record(
                run, status: status, outcome: name,
                problem: (200..<300).contains(status) ? nil : (300..<400).contains(status) ? moved : "status \(status)",
                response: String(decoding: body.prefix(DeliveryAttempt.maxResponseBytes), as: UTF8.self),
                phases: outcome.phases, next: next)
        case .failed(let failure):
            logger.info(
                "webhook attempt failed",
                metadata: [
                    "webhook": "\(run.target.id)", "reason": "\(name)", "detail": "\(failure.detail)",
                    "address": "\(outcome.remoteAddress)",
                ])
            record(
                run, status: nil, outcome: failure.publicName, problem: failure.ownerText, phases: outcome.phases,
                next: next)
        }
    }

    private func record(
        _ run: Run, status: Int?, outcome: String, problem: String?, response: String = "",
        phases: OutboundPhases = OutboundPhases(), next: Timestamp?
    ) {
        var phases = phases
        if run.number == 1, let announced = run.job.heard?.announcedAt, announced > 0 {
            phases.queue += Int64((run.started - min(run.started, announced)) / 1000)
        }
        let change = run.job.heard?.change
        journal.put(
            .attempt(
                DeliveryAttempt(
                    webhook: run.target.id, scope: change?.scope, version: change?.version, kind: run.job.kind,
                    messageID: run.messageID, number: run.number, startedAt: run.startedAt, status: status,
                    outcome: outcome, problem: problem, response: response, phases: phases, nextAt: next)))
    }
}

extension OutboundFailure {
    /// As the owner of the URL sees it: nothing that tells an open port from a closed one.
    var publicName: String {
        switch reason {
        case .connectTimeout, .refused, .unreachable, .blocked, .reset: "no_connection"
        default: reason.rawValue
        }
    }
}

extension OutboundOutcome {
    fileprivate var status: Int? {
        guard case .answered(let status, _, _, _) = result else { return nil }
        return status
    }
}

extension OutboundPhases {
    mutating func add(_ other: OutboundPhases) {
        queue += other.queue
        dns += other.dns
        connect += other.connect
        tls += other.tls
        server += other.server
        total += other.total
    }
}

extension Lane {
    func change(_ owed: Owed, _ body: (inout Owed) -> Void) {
        let index = self.owed.firstIndex {
            $0.heard.change.sequence == owed.heard.change.sequence && $0.isExtra == owed.isExtra
        }
        if let index { body(&self.owed[index]) }
    }
}
