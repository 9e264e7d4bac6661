import StalecastHTTP
import StalecastHub
import StalecastWire

/// Long polls: each ends with its answer, at once or when a message comes.
extension Carrier {
    func openPoll(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
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
}
