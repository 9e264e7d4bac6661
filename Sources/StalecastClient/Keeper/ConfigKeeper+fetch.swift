import Foundation

extension ConfigKeeper {
    /// Fetches if the policy says so. One exchange at a time: a caller that asks meanwhile shares its outcome, unless that
    /// would be an answer to other signals, to a time before a message, or to a time before a call that wants the actual
    /// values; then another follows. The exchange is not cancelled with its callers; it ends by itself after
    /// `fetchTimeout`.
    func fetch(_ demand: FetchPolicy.Demand) async -> FetchReport {
        let facts = DeviceFacts.current(options)
        // A caller that wants the actual values shares only a fetch that begins from now on.
        var oldest = demand == .actual ? state.withLock { $0.flights } + 1 : 0
        while true {
            switch begin(demand, facts, oldest) {
            case .refused(let report): return report
            case .shared(let flight): return await flight.task.value
            case .tooOld(let flight):
                oldest = flight.number + 1
                _ = await flight.task.value
            }
        }
    }

    /// Waits until everything that is known is on disk.
    func flush() async { await file.flush() }

    private enum Beginning {
        case refused(FetchReport)
        case shared(KeeperState.Flight)
        case tooOld(KeeperState.Flight)
    }

    /// - Parameter oldest: the first flight that will do.
    private func begin(_ demand: FetchPolicy.Demand, _ facts: DeviceFacts, _ oldest: Int) -> Beginning {
        let context = facts.context(appID: options.appID)
        let now = environment.now()
        return change { state in
            // A deleted app's connection may have asked for it just before.
            if state.isClosed, case .announced = demand { return .refused(.cached) }
            let decision = FetchPolicy.decide(
                demand, settings: state.minimumFetchInterval, stored: state.stored, context: context, now: now)
            if decision == .cached, oldest == 0 { return .refused(.cached) }
            if let flight = state.flight {
                let isCurrent =
                    flight.number >= oldest && flight.signals == state.stored.customSignals
                    && flight.unnumberedMessages == state.unnumberedMessages
                return isCurrent ? .shared(flight) : .tooOld(flight)
            }
            if case .throttled(let end) = decision {
                state.stored.lastFetchStatus = RemoteConfigFetchStatus.throttled.rawValue
                return .refused(.throttled(until: end))
            }
            state.flights += 1
            // Ends with the fetch's timeout.
            let flight = KeeperState.Flight(
                number: state.flights, task: Task { await self.exchange(demand, facts, context) },
                signals: state.stored.customSignals, unnumberedMessages: state.unnumberedMessages)
            state.flight = flight
            return .shared(flight)
        }
    }

    private func exchange(_ demand: FetchPolicy.Demand, _ facts: DeviceFacts, _ context: String) async -> FetchReport {
        let answer = await ask(demand, facts)
        let now = environment.now()
        let random = environment.random()
        let (report, action, listeners, held) = change { state in
            let report = state.receive(answer, to: demand, context: context, now: now, random: random)
            var action = AnnouncedFetch.Action.none
            if case .answered(let version) = report {
                if case .announced = demand {} else { action = state.announced.reached(version) }
            }
            return (report, action, Array(state.listeners.exchanges.values), state.fetchedVersion)
        }
        if case .answered(let version?) = report, version < held {
            callbacks.report(.olderAnswer(version: version, held: held))
        }
        for listener in listeners { listener(report) }
        perform(action)
        return report
    }

    private func ask(_ demand: FetchPolicy.Demand, _ facts: DeviceFacts) async -> FetchAnswer {
        let held = state.withLock { (etag: $0.stored.fetched?.etag, $0.stored.customSignals, $0.fetchTimeout) }
        // Google's servers refuse members they do not know.
        let isOurs = if case .stalecast = options.server { true } else { false }
        let active = isOurs ? state.withLock { $0.stored.active?.version } : nil
        let type =
            switch demand {
            case .app, .actual: "BASE/1"
            case .announced(let attempt): "REALTIME/\(attempt)"
            }
        let begun = environment.now()
        do {
            let installation = try await installation.valid(timeout: held.2)
            // Making the installation valid may have taken a part of the time.
            let left = held.2 - max(0, environment.now().timeIntervalSince(begun))
            let request = FetchRequest(
                options: options, namespace: namespace, facts: facts, installation: installation,
                token: installation.token?.text ?? "stalecast", etag: held.etag, customSignals: held.1,
                activeVersion: active, fetchType: type, timeout: max(1, (left * 1000).rounded() / 1000))
            return FetchAnswer(try await isOurs ? send(request) : options.transport.send(request.transportRequest))
        } catch let failure as FetchAnswer.Failure {
            return .failed(failure)
        } catch {
            return .failed(.unreachable(error, endpoint: options.endpoint))
        }
    }

    /// Sends a request with the token of the options' provider, which is asked once more when the server refuses it.
    private func send(_ request: FetchRequest) async throws -> TransportResponse {
        guard let provider = options.connection.tokenProvider else {
            return try await options.transport.send(request.transportRequest)
        }
        var request = request
        let begun = environment.now()
        if !options.headers.hasAuthorization {
            request.bearer = await bearer.value(from: provider, within: request.timeout)
        }
        request.timeout = left(of: request.timeout, since: begun)
        let answer = try await options.transport.send(request.transportRequest)
        guard answer.status == 401 else { return answer }
        let refused = request.bearer
        request.timeout = left(of: request.timeout, since: begun)
        request.bearer = await bearer.value(from: provider, insteadOf: refused, within: request.timeout)
        // Nothing new to show: it would be refused again.
        guard request.bearer != nil, request.bearer != refused else { return answer }
        return try await options.transport.send(request.transportRequest)
    }

    /// Seconds, at least one.
    private func left(of limit: TimeInterval, since begun: Date) -> TimeInterval {
        max(1, limit - max(0, environment.now().timeIntervalSince(begun)))
    }
}
