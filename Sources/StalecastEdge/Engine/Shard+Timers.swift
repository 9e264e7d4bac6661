import CLinux
import Logging
import StalecastHub
import StalecastWire

extension Shard {
    /// Puts a stream back in the wheel for whatever comes first: heartbeat, end of life, or the write-stall limit.
    func reschedule(_ index: Int32) {
        let slot = slots[index]
        wheel.remove(index, in: slots)
        var due = min(slot.pointee.heartbeat, slot.pointee.deadline)
        if slot.pointee.hasBacklog, let backlog = backlogs[index] { due = min(due, stallDeadline(backlog)) }
        wheel.insert(index, due: due, in: slots)
    }

    private func stallDeadline(_ backlog: Backlog) -> Tick {
        backlog.progress + TimerWheel.ticks(settings.writeStallLimit.milliseconds)
    }

    /// A slot's tick has come; it is no longer in the wheel.
    func timerFired(_ index: Int32) {
        let slot = slots[index]
        switch slot.pointee.phase {
        case .free, .doomed: return
        case .head: release(index, draining == nil ? headReason(index) : .drain)
        case .poll: answerEmpty(index)
        case .answering: release(index, .writeStall)
        case .direct, .stream: streamTimerFired(index)
        }
    }

    /// A connection that never completed a head is slow; one that had a poll before is merely idle.
    private func headReason(_ index: Int32) -> DropReason {
        slots[index].pointee.deadline == 0 ? .headerTimeout : .idle
    }

    private func streamTimerFired(_ index: Int32) {
        let slot = slots[index]
        if let backlog = backlogs[index], slot.pointee.hasBacklog, stallDeadline(backlog) <= wheel.now {
            logger.debug("stream closed", metadata: ["reason": "write_stall", "shard": "\(number)"])
            return release(index, .writeStall)
        }
        if slot.pointee.deadline <= wheel.now { return end(index, draining == nil ? .lifetime : .drain) }
        if slot.pointee.heartbeat <= wheel.now {
            slot.pointee.heartbeat = wheel.now + TimerWheel.ticks(policy.heartbeatMs())
            if !slot.pointee.hasBacklog { beat(index) }
            if slot.pointee.phase == .doomed { return }
        }
        reschedule(index)
    }

    private func beat(_ index: Int32) {
        // Whoever has a heartbeat as its backlog counts as told of everything, also of what is being held back.
        if slots[index].pointee.isInvalidation, !heldBack.isEmpty { return }
        tally.heartbeats += 1
        write(slots[index].pointee.dialect.heartbeat, to: index, through: board.headSequence)
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
            if !slot.pointee.hasBacklog { sendEnd(index) }
            release(index, reason)
        default: release(index, reason)
        }
    }

    private func sendEnd(_ index: Int32) {
        let slot = slots[index]
        out.removeAll(keepingCapacity: true)
        let retry = draining == nil ? policy.retryMs() : drainRetryMs()
        let newest = draining == nil ? nil : topics(of: index).first.map { board[$0].latest?.version ?? 0 }
        slot.pointee.dialect.appendEnd(retryMs: retry, newest: newest, to: &out)
        _ = out.withUnsafeBytes { stalecast_send(slot.pointee.fd, $0.baseAddress, $0.count) }
    }

    /// What whoever is ended by the drain is told.
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
            case .head: release(index, .drain)
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
