import Foundation

extension ConfigKeeper {
    /// The longest a connection that came back waits before it makes up for a fetch that is owed, in seconds: many
    /// clients come back at once.
    private static let catchUpWindow: TimeInterval = 2

    /// A message for this namespace. Sets the flag that the configuration is stale, durably; fetches if that is wanted.
    func received(_ notice: StaleNotice) {
        let window = notice.isUrgent ? 0 : Double(max(0, notice.fetchWindowMs)) / 1000
        let delay = window * environment.random()
        let now = environment.now()
        let action = change { state -> AnnouncedFetch.Action in
            guard state.stored.isVoid || notice.version == 0 || notice.version > state.fetchedVersion else {
                return .none
            }
            state.stored.isStale = true
            if notice.version == 0 { state.unnumberedMessages += 1 }
            // It proves that older answers are those of a server that lags.
            state.stored.olderSince = nil
            if notice.version > 0 { state.stored.wasAnnounced(notice.version) }
            guard state.isLive else { return .none }
            // A message without a version during an attempt matters: no answer can be compared with it.
            let isUnknown = notice.version == 0 && state.announced.phase == .fetching
            // A higher version that did not come must not keep listeners from hearing of this one.
            let target = state.stored.unreachedSince == nil ? state.stored.staleVersion : notice.version
            return state.announce(isUnknown ? nil : target, delay: delay, at: now)
        }
        perform(action)
    }

    /// The connection delivered all it owed: what it said is in the state, so its place may be remembered.
    func synced(_ cursor: String?, of topics: Set<String>) {
        change { ($0.stored.cursor, $0.stored.cursorTopics) = (cursor, topics.sorted()) }
    }

    /// Notes that a message's content is in the state: the next start need not hear it again.
    func passed(_ cursor: String?, of topics: Set<String>) {
        if cursor != nil { synced(cursor, of: topics) }
    }

    /// The server disowned the cursor: its store was replaced, and version numbers may have started over.
    func reset() {
        change { state in
            state.stored.disown()
            state.announced.cancel()
        }
    }

    /// Makes up for a fetch that became due before the connection came back, or before automatic fetches were turned
    /// on.
    func catchUp() {
        let delay = Self.catchUpWindow * environment.random()
        let now = environment.now()
        let action = change { state -> AnnouncedFetch.Action in
            guard state.isLive, state.stored.isStale, state.announced.phase == .idle else { return .none }
            return state.announce(state.stored.staleVersion, delay: delay, at: now)
        }
        perform(action)
    }

    /// Tells all listeners of a problem.
    func report(_ error: RemoteConfigUpdateError) {
        for listener in state.withLock({ Array($0.listeners.updates.values) }) { listener(.failure(error)) }
    }

    func perform(_ action: AnnouncedFetch.Action) {
        switch action {
        case .none: break
        case .wait(let seconds, let turn): startTimer(seconds, turn)
        // Ends with the fetch's timeout.
        case .fetch(let attempt): Task { await self.attempt(attempt) }
        case .settled: notify()
        case .gaveUp:
            state.withLock { $0.hasNews } ? notify() : report(RemoteConfigUpdateError(.notFetched))
        }
    }

    /// Ends with its sleep or with ``close()``; a newer timer makes it void.
    private func startTimer(_ seconds: TimeInterval, _ turn: Int) {
        let timer = Task {
            do { try await environment.sleep(seconds) } catch { return }
            perform(change { $0.announced.timerFired(turn: turn) })
        }
        // Another thread may have decided on a later one and been quicker here: that one is in force.
        let obsolete = state.withLock { state in
            guard !state.isClosed, turn > state.timerTurn else { return timer as Task<Void, Never>? }
            defer { (state.timer, state.timerTurn) = (timer, turn) }
            return state.timer
        }
        obsolete?.cancel()
    }

    private func attempt(_ attempt: Int) async {
        let report = await fetch(.announced(attempt: attempt))
        let now = environment.now()
        let random = environment.random()
        perform(
            change { state in
                switch report {
                case .cached: state.announced.answered(state.fetchedVersion, at: now, random: random)
                case .answered(let version): state.announced.answered(version, at: now, random: random)
                case .throttled(let end, _): state.announced.throttled(until: end, at: now, random: random)
                case .failed: state.announced.failed(at: now, random: random)
                }
            })
    }

    /// Tells listeners which parameters an activation would change; nothing when there are none.
    private func notify() {
        let (keys, listeners) = state.withLock { state in
            let active = state.stored.active ?? ConfigContent()
            return (
                (state.stored.fetched ?? ConfigContent()).keysDiffering(from: active), state.listeners.updates.values
            )
        }
        guard !keys.isEmpty else { return }
        for listener in listeners { listener(.success(keys)) }
    }
}
