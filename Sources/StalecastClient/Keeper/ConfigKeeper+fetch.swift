import Foundation

extension ConfigKeeper {
    /// Fetches if the policy says so. One exchange at a time: whoever asks meanwhile shares its outcome. The exchange
    /// is not cancelled with its callers; it ends by itself after `fetchTimeout`.
    func fetch(_ demand: FetchPolicy.Demand) async -> FetchReport {
        let facts = DeviceFacts.current()
        let flight = begin(demand, facts)
        switch flight {
        case .success(let task): return await task.value
        case .failure(let refusal): return refusal.report
        }
    }

    /// Waits until everything that is known is on disk.
    func flush() async { await file.flush() }

    private struct Refusal: Error { let report: FetchReport }

    private func begin(
        _ demand: FetchPolicy.Demand, _ facts: DeviceFacts
    ) -> Result<Task<FetchReport, Never>, Refusal> {
        let context = facts.context(appID: options.appID)
        let now = environment.now()
        return change { state in
            // A deleted app's connection may have asked for it just before.
            if state.isClosed, case .announced = demand { return .failure(Refusal(report: .cached)) }
            let decision = FetchPolicy.decide(
                demand, settings: state.minimumFetchInterval, stored: state.stored, context: context, now: now)
            switch decision {
            case .cached: return .failure(Refusal(report: .cached))
            case .fetch: break
            case .throttled(let end):
                if state.flight == nil {
                    state.stored.lastFetchStatus = RemoteConfigFetchStatus.throttled.rawValue
                    return .failure(Refusal(report: .throttled(until: end)))
                }
            }
            if let flight = state.flight { return .success(flight) }
            let flight = Task { await self.exchange(demand, facts, context) }
            state.flight = flight
            return .success(flight)
        }
    }

    private func exchange(_ demand: FetchPolicy.Demand, _ facts: DeviceFacts, _ context: String) async -> FetchReport {
        let answer = await ask(demand, facts)
        let now = environment.now()
        let random = environment.random()
        let (report, action, listeners, held) = change { state in
            state.flight = nil
            let report = state.receive(answer, to: demand, context: context, now: now, random: random)
            let action: AnnouncedFetch.Action =
                if case .answered(let version) = report, case .app = demand { state.announced.reached(version) } else {
                    .none
                }
            return (report, action, Array(state.exchangeListeners.values), state.fetchedVersion)
        }
        if case .answered(let version?) = report, version < held {
            options.onProblem?(.olderAnswer(version: version, held: held))
        }
        for listener in listeners { listener(report) }
        perform(action)
        return report
    }

    private func ask(_ demand: FetchPolicy.Demand, _ facts: DeviceFacts) async -> FetchAnswer {
        let held = state.withLock { (etag: $0.stored.fetched?.etag, $0.stored.customSignals, $0.fetchTimeout) }
        let type =
            switch demand {
            case .app: "BASE/1"
            case .announced(let attempt): "REALTIME/\(attempt)"
            }
        do {
            let installation = try await installation.valid()
            let request = FetchRequest(
                options: options, namespace: namespace, facts: facts, installation: installation,
                token: installation.token?.text ?? "stalecast", etag: held.etag, customSignals: held.1,
                fetchType: type, timeout: held.2)
            return FetchAnswer(try await options.transport.send(request.transportRequest))
        } catch let failure as FetchFailure {
            return .failed(failure)
        } catch {
            return .failed(.unreachable(error, endpoint: options.endpoint))
        }
    }
}
