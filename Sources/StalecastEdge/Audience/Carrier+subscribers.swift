import CLinux
package import StalecastHub
package import StalecastWire

extension Carrier {
    // MARK: Timers

    /// The tick of a stream or a held poll has come.
    func subscriberTimerFired(_ index: Int32) {
        switch slots[index].pointee.phase {
        case .poll: answerEmpty(index)
        case .direct, .stream: streamTimerFired(index)
        default: return
        }
    }

    private func streamTimerFired(_ index: Int32) {
        let (slot, now) = (slots[index], audience.wheel.now)
        if let backlog = audience.backlogs[index], audience.stallDeadline(backlog) <= now, !hasTakenMore(index) {
            return release(index, .writeStall)
        }
        if slot.pointee.times.deadline <= now { return end(index, audience.endReason(index)) }
        if slot.pointee.times.warning != 0, slot.pointee.times.warning <= now {
            slot.pointee.times.warning = 0
            warn(index)
        }
        if slot.pointee.times.heartbeat <= now {
            slot.pointee.times.heartbeat = now + TimerWheel.ticks(audience.policy.heartbeatMs())
            beat(index)
        }
        // A write above may have met a dead connection, whose timer goes with ``releaseDoomed()``.
        if slot.pointee.phase != .doomed { audience.reschedule(index) }
    }

    /// Whether a client that reads slowly has taken a byte of its backlog since the last look.
    func hasTakenMore(_ index: Int32) -> Bool {
        audience.hasTakenMore(index, acknowledged: acknowledgedBytes(of: index))
    }

    private func beat(_ index: Int32) {
        let slot = slots[index].pointee
        // A heartbeat that becomes the backlog would mark the held-back message as delivered: skip it.
        let isHolding = slot.request.kind.isOfScope && audience.pacing.isHolding(Topic.Index(rawValue: slot.topic))
        if !slot.isStream || slot.hasBacklog || isHolding { return }
        audience.tally.heartbeats += 1
        write(slot.dialect.heartbeat, to: index, through: audience.told(index))
    }

    /// Warns a stream that its credential ends soon. A stream that reads too slowly is not warned; it hears the end.
    private func warn(_ index: Int32) {
        let slot = slots[index].pointee
        guard !slot.hasBacklog, let principal = settings.access.currentPrincipal(of: slot.client.principal),
            let event = slot.dialect.expiring(principal)
        else { return }
        write(event, to: index, through: board.headSequence)
    }

    func recheckAccess() {
        for index in audience.recheckAccess() { end(index, .revoked) }
    }

    // MARK: Clients and counts

    /// - Parameter untold: sequence of the first version that the stream was not told of.
    func forget(_ index: Int32, isPoll: Bool, untold: CommitSequence? = nil) {
        guard !audience.reach.identities.isEmpty, let keys = audience.reach.identities.removeValue(forKey: index) else {
            return
        }
        hub.propagation.left(keys, isPoll: isPoll, untold: untold)
    }

    /// Counts of the streams that have a scope's newest message. Call it after the announcements that it counts.
    package func streamCounts(of scope: Scope) -> StreamCounts {
        guard let version = audience.reach.rollouts.versions[scope]?.last else {
            return audience.streamsHere(of: scope)
        }
        audience.tellStreamCounts(hub.propagation)
        var streamCounts = audience.reach.rollouts.versions[scope]?.last?.streamCounts ?? version.streamCounts
        if streamCounts.received + streamCounts.receivedUnknown >= streamCounts.told { return streamCounts }
        probe(scope, version, told: streamCounts.told)
        streamCounts = audience.reach.rollouts.versions[scope]?.last?.streamCounts ?? streamCounts
        streamCounts.unread = audience.reach.probes[scope].flatMap {
            $0.sequence == version.sequence ? $0.unread : nil
        }
        return streamCounts
    }

    /// Asks the kernel what peers have acknowledged. Probes of all scopes together take at most a twentieth of the
    /// loop's time; a scope waits only for its own last probe.
    private func probe(_ scope: Scope, _ version: LoopRollouts.Version, told: Int) {
        let began = stalecast_monotonic_ns()
        guard began >= audience.reach.probes[scope]?.nextAt ?? 0 else { return }
        let answers = audience.told(version).compactMap(hasAcknowledgedAll)
        let scopes = UInt64(audience.reach.rollouts.versions.count)
        audience.reach.probes[scope] = Reach.Probe(
            sequence: version.sequence, unread: answers.count { !$0 },
            nextAt: began + 20 * scopes * (stalecast_monotonic_ns() - began))
        audience.reach.rollouts.received(
            answers.count { $0 }, unknown: max(0, told - answers.count), of: scope)
        audience.tellStreamCounts(hub.propagation)
    }
}
