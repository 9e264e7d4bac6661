import CLinux
import Logging
import StalecastAccess
import StalecastHub
import StalecastWire

extension Shard {
    /// Puts a stream back in the wheel for whatever comes first: heartbeat, end of life, or the write-stall limit.
    func reschedule(_ index: Int32) {
        let slot = slots[index]
        wheel.remove(index, in: slots)
        var due = due(index)
        if slot.pointee.hasBacklog, let backlog = backlogs[index] { due = min(due, stallDeadline(backlog)) }
        wheel.insert(index, due: due, in: slots)
    }

    /// Next time of a stream without a backlog.
    func due(_ index: Int32) -> Tick {
        let slot = slots[index].pointee
        return min(slot.heartbeat, slot.deadline, slot.warning == 0 ? .max : slot.warning)
    }

    private func stallDeadline(_ backlog: Backlog) -> Tick {
        backlog.progress + TimerWheel.ticks(settings.writeStallLimit.milliseconds)
    }

    /// Whether a client that reads slowly has taken a byte of its backlog since the last look. The socket says nothing
    /// before a third of its buffer is free, nor TLS before a whole record is gone.
    private func hasTakenMore(_ index: Int32) -> Bool {
        let acknowledged = stalecast_acknowledged(slots[index].pointee.fd)
        guard let before = backlogs[index]?.acknowledged, acknowledged > before else { return false }
        backlogs[index]?.acknowledged = acknowledged
        backlogs[index]?.progress = wheel.now
        return true
    }

    /// A slot's tick has come; it is no longer in the wheel.
    func timerFired(_ index: Int32) {
        let slot = slots[index]
        switch slot.pointee.phase {
        case .free, .doomed: return
        case .head where slot.pointee.waits > 0 && draining == nil: refuseBody(index)
        case .head: release(index, draining == nil ? headReason(index) : .drain)
        // Signatures take longer than a client should wait: the Front says so.
        case .verifying: giveToFront(index)
        case .poll: answerEmpty(index)
        case .answering: hasTakenMore(index) ? awaitProgress(index) : release(index, .writeStall)
        case .direct, .stream: streamTimerFired(index)
        }
    }

    /// A connection that never completed a head is slow; one that had an answer before is merely idle.
    func headReason(_ index: Int32) -> DropReason {
        slots[index].pointee.deadline == 0 ? .headerTimeout : .idle
    }

    private func streamTimerFired(_ index: Int32) {
        let slot = slots[index]
        if let backlog = backlogs[index], slot.pointee.hasBacklog, stallDeadline(backlog) <= wheel.now,
            !hasTakenMore(index)
        {
            logger.debug("stream closed", metadata: ["reason": "write_stall", "shard": "\(number)"])
            return release(index, .writeStall)
        }
        if slot.pointee.deadline <= wheel.now { return end(index, endReason(index)) }
        if slot.pointee.warning != 0, slot.pointee.warning <= wheel.now {
            slot.pointee.warning = 0
            warn(index)
            if slot.pointee.phase == .doomed { return }
        }
        if slot.pointee.heartbeat <= wheel.now {
            slot.pointee.heartbeat = wheel.now + TimerWheel.ticks(policy.heartbeatMs())
            if !slot.pointee.hasBacklog { beat(index) }
            if slot.pointee.phase == .doomed { return }
        }
        reschedule(index)
    }

    private func endReason(_ index: Int32) -> DropReason {
        if draining != nil { return .drain }
        let number = slots[index].pointee.principal
        guard number != 0, settings.access.mode == .enforce else { return .lifetime }
        return settings.access.currentPrincipal(of: number) == nil ? .expired : .lifetime
    }

    private func beat(_ index: Int32) {
        // A heartbeat that becomes the backlog would mark the held-back message as delivered: skip it.
        if slots[index].pointee.isInvalidation, !heldBack.isEmpty { return }
        tally.heartbeats += 1
        let told = unreached.isEmpty ? board.headSequence : unreached[index].map { $0 - 1 } ?? board.headSequence
        write(slots[index].pointee.dialect.heartbeat, to: index, through: told)
    }

    // MARK: Access

    /// - Parameter expiry: milliseconds for which the credential is good; nil for ever.
    func scheduleWarning(_ index: Int32, until expiry: Int?) {
        guard let expiry, !slots[index].pointee.isInvalidation else { return }
        slots[index].pointee.warning = wheel.now + TimerWheel.ticks(expiry - SubscriberPolicy.warningMs(before: expiry))
    }

    /// Warns a stream that its credential ends soon. A stream that reads too slowly is not warned; it hears the end.
    private func warn(_ index: Int32) {
        let slot = slots[index]
        guard !slot.pointee.hasBacklog,
            let currentPrincipal = settings.access.currentPrincipal(of: slot.pointee.principal),
            let event = slot.pointee.dialect.expiring(currentPrincipal)
        else { return }
        write(event, to: index, through: board.headSequence)
    }

    /// Looks at every subscriber again, because principals may have lost something: what its credential may not hear
    /// any more ends it.
    func recheckAccess() {
        guard settings.access.mode == .enforce else { return recheckKeys() }
        var standings: [Int32: Principal?] = [:]
        for index in 0..<slots.end {
            let slot = slots[index]
            guard [.direct, .stream, .poll].contains(slot.pointee.phase) else { continue }
            let number = slot.pointee.principal
            let principal = standings[number] ?? settings.access.currentPrincipal(of: number)
            standings[number] = principal
            guard let principal, topics(of: index).allSatisfy({ principal.may(.watch, topic: board[$0]) }) else {
                end(index, .revoked)
                continue
            }
            if let left = principal.expiresInMs { shorten(index, to: left) }
        }
    }

    /// Ends every subscriber whose key `edge.apiKeys` does not name any more.
    private func recheckKeys() {
        for index in 0..<slots.end where [.direct, .stream, .poll].contains(slots[index].pointee.phase) {
            if !settings.keys.admit(slots[index].pointee.apiKey) { end(index, .revoked) }
        }
    }

    private func shorten(_ index: Int32, to milliseconds: Int) {
        let deadline = wheel.now + TimerWheel.ticks(Self.life(milliseconds))
        guard deadline < slots[index].pointee.deadline else { return }
        slots[index].pointee.deadline = deadline
        if slots[index].pointee.phase != .poll { scheduleWarning(index, until: milliseconds) }
        // A poll has no heartbeat that could come before.
        if slots[index].pointee.phase == .poll { slots[index].pointee.heartbeat = .max }
        reschedule(index)
    }

    // MARK: Ends

    /// Ends a stream cleanly, with a delay to come back after; a poll is answered; another connection is closed.
    func end(_ index: Int32, _ reason: DropReason) {
        let slot = slots[index]
        switch slot.pointee.phase {
        // The doomed are released by ``releaseDoomed()``; until then they are in its list.
        case .free, .doomed: return
        case .poll: answerEmpty(index)
        case .direct, .stream:
            if !slot.pointee.hasBacklog { sendEnd(index, reason) }
            release(index, reason)
        default: release(index, reason)
        }
    }

    private func sendEnd(_ index: Int32, _ reason: DropReason) {
        let slot = slots[index]
        out.removeAll(keepingCapacity: true)
        slot.pointee.dialect.appendAuth(reason, to: &out)
        let retry = draining == nil ? policy.retryMs() : drainRetryMs()
        let newest = draining == nil ? nil : topics(of: index).first.map { board[$0].latest?.version ?? 0 }
        slot.pointee.dialect.appendEnd(retryMs: retry, newest: newest, to: &out)
        _ = put(out[...], on: slot)
    }

    /// Retry time for a stream that the drain ends.
    func drainRetryMs() -> Int {
        let end = draining?.deadline ?? wheel.now
        let left = Int(end - min(end, wheel.now)) * Int(TimerWheel.tickNanoseconds / 1_000_000)
        return policy.drainRetryMs(left: left, connections: slots.used)
    }

    func drain(over milliseconds: Int, done: @escaping @Sendable () -> Void) {
        stopListening()
        draining = (done, wheel.now + TimerWheel.ticks(milliseconds + SubscriberPolicy.drainGraceMs))
        for index in 0..<slots.end {
            switch slots[index].pointee.phase {
            case .free, .doomed: continue
            // A fetch that has begun is answered.
            case .head where slots[index].pointee.waits > 0: giveToFront(index)
            case .head, .verifying: release(index, .drain)
            case .answering: slots[index].pointee.keepAlive = false
            case .poll, .direct, .stream:
                let wait = policy.drainWaitMs(over: milliseconds)
                slots[index].pointee.deadline = wheel.now + TimerWheel.ticks(wait)
                // A poll has no heartbeat that could come before.
                if slots[index].pointee.phase == .poll { slots[index].pointee.heartbeat = .max }
                reschedule(index)
            }
        }
    }

    /// Tells that the drain is over when nothing is left, or when its time is up whatever is left.
    func finishDrainIfDone() {
        guard let draining, slots.used == 0 || wheel.now >= draining.deadline else { return }
        for index in 0..<slots.end where slots[index].pointee.phase != .free { release(index, .drain) }
        self.draining = nil
        draining.done()
    }
}
