import CLinux
import StalecastHTTP
package import StalecastHub
package import StalecastWire

/// Starts of streams and polls, answers to polls, and timers of both.
extension Carrier {
    // MARK: Streams

    /// Begins a stream or a poll in a slot that has a connection.
    package func open(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        slot.pointee.client.principal = topics.principal
        slot.pointee.client.apiKey = topics.apiKey
        slot.pointee.client.key = request.clientKey.rawValue
        slot.pointee.request.isHTTP11 = request.isHTTP11
        slot.pointee.request.keepAlive = request.keepAlive
        slot.pointee.request.kind = request.kind
        switch request.kind {
        case .events, .invalidations, .pings: openStream(index, request, topics)
        case .poll, .state: openPoll(index, request, topics)
        }
    }

    /// Registers first, then reads the state, then writes what is owed: nothing can fall between.
    private func openStream(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        let dialect = slot.pointee.dialect
        // A message that is held back goes out first: this stream gets it with its opening, and must not get it twice.
        if request.kind.isOfScope { flushPaced(topics.known[0]) }
        audience.subscribe(index, to: topics.known)
        slot.pointee.joined = UInt32(truncatingIfNeeded: board.headSequence)
        audience.countJoined(index)
        identify(index, request, topics.known)
        slot.pointee.phase = slot.pointee.isOrdinary ? .direct : .stream
        audience.tally.streams += 1
        if hub.releases.isOpen { tellBegin(index) }
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: settings.allowedOrigins)
        let bytes = audience.opening(of: dialect, topics, from: request.resume, cors)
        audience.scheduleStream(index, until: topics.expiresInMs)
        write(bytes, to: index, through: board.headSequence)
    }

    // MARK: Polls

    private func openPoll(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        slot.pointee.request.wantsNotModified = request.wantsNotModified
        slot.pointee.origin = audience.notes.remember(request.origin, settings.allowedOrigins)
        if !topics.unknown.isEmpty { audience.notes.unknown[index] = topics.unknown }
        identify(index, request, topics.known)
        let hold = min(audience.holdMs(index, request), Audience.life(topics.expiresInMs))
        let opening = board.opening(for: topics.known, from: request.resume)
        if opening.reset != nil || !opening.messages.isEmpty {
            return answer(index, owed: opening.messages, reset: opening.reset)
        }
        if hold == 0 { return answerEmpty(index) }
        slot.pointee.phase = .poll
        audience.subscribe(index, to: topics.known)
        audience.tally.polls += 1
        slot.pointee.times.deadline = audience.wheel.now + TimerWheel.ticks(hold)
        audience.wheel.insert(index, due: slot.pointee.times.deadline, in: slots)
    }

    /// A poll's answer carries the head as its cursor, so it must have everything that was announced after `before`.
    func answerPoll(_ index: Int32, after before: CommitSequence) {
        guard slots[index].pointee.phase == .poll else { return }
        answer(index, owed: board.owed(to: audience.topics(of: index), after: before))
    }

    private func answer(_ index: Int32, owed: [Debt], reset: Opening.ResetReason? = nil) {
        audience.tally.deliveries[.poll, default: 0] += owed.count
        answer(index, audience.encoded(owed).map(\.json), reset: reset)
    }

    /// A poll whose time is up.
    func answerEmpty(_ index: Int32) {
        answer(index, [], status: slots[index].pointee.request.wantsNotModified ? 304 : 200)
    }

    /// Answers a poll; then its connection is in the head state, or ends.
    func answer(_ index: Int32, _ messages: [[UInt8]], reset: Opening.ResetReason? = nil, status: Int = 200) {
        let slot = slots[index].pointee
        let unknown = audience.notes.unknown.removeValue(forKey: index) ?? []
        let shared = audience.notes.shared.removeValue(forKey: index)
        endSubscription(index)
        forget(index, isPoll: true)
        audience.wheel.remove(index, in: slots)
        let keepAlive = slot.request.keepAlive && !isDraining
        let origin = slot.origin == 0 ? nil : audience.notes.origins[Int(slot.origin)]
        // A cache would ask again with the tag of a shared answer; its next round has another address instead.
        var fields = shared == nil ? PollDialect.etagField(board.head) : SharedPoll.vary
        if isDraining { fields += Refusals.retryAfter(milliseconds: drainRetryMs()) }
        let response = ResponseHead.response(
            status: status, caching: shared?.caching ?? "no-store", fields: fields,
            cors: ResponseHead.corsFields(origin: origin, allowed: settings.allowedOrigins),
            date: audience.bytes.date.string(), keepAlive: keepAlive,
            body: PollDialect.body(
                cursor: board.head, messages: messages, reset: reset, unknown: unknown,
                round: shared?.round(isSilent: messages.isEmpty && reset == nil)))
        finish(index, with: response, keepAlive: keepAlive)
    }

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

    /// Ends every subscriber that may not hear its topics any more.
    func recheckAccess() {
        for index in audience.recheckAccess() { end(index, .revoked) }
    }

    // MARK: Clients and counts

    /// Tells the rollout tracker which client has this stream or poll, if the client named itself.
    private func identify(_ index: Int32, _ request: StreamRequest, _ topics: [Topic.Index]) {
        guard let client = request.client else { return }
        let address = slots[index].pointee.client.address
        audience.reach.identities[index] = hub.propagation.join(
            client, of: topics, on: board, from: request.resume, isPoll: request.kind == .poll,
            address: (address, !stalecast_is_loopback_key(address)))
    }

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

extension Audience {
    /// Time to hold a poll; a shared one ends with its round.
    fileprivate mutating func holdMs(_ index: Int32, _ request: StreamRequest) -> Int {
        guard let round = request.round else { return policy.holdMs(wanted: request.waitMs) }
        let wait = min(request.waitMs ?? SharedPoll.defaultWaitMs, settings.times.pollMaxWait.milliseconds)
        let shared = SharedPoll(after: round, waitMs: wait, hasCursor: request.resume.cursor != nil, at: .now())
        notes.shared[index] = shared
        return shared.holdMs
    }

    /// The first bytes of a stream.
    fileprivate mutating func opening(
        of dialect: StreamDialect, _ topics: AdmittedTopics, from point: ResumePoint, _ cors: String
    ) -> [UInt8] {
        let opening = board.opening(for: topics.known, from: point)
        bytes.out.removeAll(keepingCapacity: true)
        bytes.out.append(contentsOf: bytes.stream(dialect, cors))
        dialect.appendBeginning(
            retryMs: policy.retryMs(), reset: opening.reset, unknown: topics.unknown, epoch: board.epoch, to: &bytes.out
        )
        dialect.append(encoded(opening.messages), to: &bytes.out)
        if !dialect.kind.isOfScope { bytes.out += bytes.synced(opening.head, dialect) }
        tally.deliveries[dialect.transport, default: 0] += opening.messages.count
        return bytes.out
    }
}
