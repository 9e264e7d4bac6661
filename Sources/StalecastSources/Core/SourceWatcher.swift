package import StalecastStore
package import StalecastWire
import Synchronization

/// Polls one scope's source regularly and when triggered, and has new templates adopted. One poll runs at a time; all
/// triggers that come meanwhile cause one more.
package final class SourceWatcher: Sendable {
    package let scope: Scope
    private let source: any TemplateSource
    private let fence: Fence?
    private let store: TemplateStore
    private let isNumbered: Bool
    private let schedule: PollSchedule
    private let report: @Sendable (Report) -> Void
    private let wakeSignal = WakeSignal()
    private let state: Mutex<WatchState>
    private let ownership = Mutex<Ownership?>(nil)

    /// - Parameters:
    ///   - isNumbered: whether the origin's own version numbers are used.
    ///   - fence: nil announces at once.
    ///   - report: hears what an operator should know; any thread.
    package init(
        _ scope: Scope, source: any TemplateSource, isNumbered: Bool = false, fence: Fence? = nil,
        store: TemplateStore, schedule: PollSchedule = PollSchedule(),
        report: @escaping @Sendable (Report) -> Void = { _ in }
    ) {
        (self.scope, self.source, self.fence, self.store) = (scope, source, fence, store)
        (self.isNumbered, self.schedule, self.report) = (isNumbered, schedule, report)
        var status = SourceStatus(scope: scope, kind: source.kind, place: source.place)
        // What was adopted before a restart was adopted anyway.
        let current = store.currentTemplates[scope]
        status.version = current?.version
        status.lastChange = current?.metadata.updateTime
        state = Mutex(WatchState(status))
    }

    package var status: SourceStatus {
        var status = state.withLock(\.status)
        status.listening = source.listening
        return status
    }

    /// Polls as soon as the poll under way is over. Returns at once; any thread.
    ///
    /// - Parameter expected: the version that should be there; until it is, the next polls follow soon.
    package func poll(expecting expected: VersionNumber? = nil) {
        state.withLock { $0.triggered(expecting: expected) }
        wakeSignal.ring()
    }

    /// Polls at once, and goes on until the task is cancelled. A template that was seen but not adopted by then is seen
    /// again after the next start.
    ///
    /// - Parameter ownership: what is adopted is only taken while it holds; nil, the default: always.
    package func run(under ownership: Ownership? = nil) async {
        self.ownership.withLock { $0 = ownership }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.source.listen { self.poll(expecting: $0) } }
            group.addTask { await self.watch() }
            await group.waitForAll()
        }
    }

    private func watch() async {
        while !Task.isCancelled {
            state.withLock { $0.began() }
            let outcome = await outcomeOfPoll()
            let hears = source.listening?.isOpen ?? false
            let reports = state.withLock {
                $0.ended(outcome, schedule, hears: hears, random: .random(in: 0...1))
            }
            reports.forEach(report)
            await pause()
        }
    }

    private func pause() async {
        while !Task.isCancelled {
            let left = state.withLock { $0.nextPoll } - .now
            if left <= .zero { return }
            await wakeSignal.wait(atMost: left)
        }
    }

    // MARK: One poll

    private func outcomeOfPoll() async -> WatchState.Outcome {
        switch await source.poll() {
        case .unchanged: return .unchanged
        // The end cuts off a request: that is no problem of the origin's.
        case .failed(let problem): return Task.isCancelled ? .interrupted : .failed(problem)
        case .seen(let sight): return await take(sight)
        }
    }

    /// Judged before the wait at the fence, which only what is new is worth, and once more by the store: meanwhile
    /// something else may have become current.
    private func take(_ sight: OriginPoll.Sight) async -> WatchState.Outcome {
        var adoption = Adoption(scope, sight, isNumbered: isNumbered)
        adoption.ownership = ownership.withLock(\.self)
        switch adoption.relation(to: store.currentTemplates[scope]) {
        case .isNew: break
        case .isCurrent: return .current(sight.content.version)
        case .isOlder(let current): return refused(.older(sight.content.version, than: current))
        case .contradicts: return refused(.sameVersion(sight.content.version))
        }
        let fenceOutcome = await waitAtFence(sight)
        // The end must not pass for a fence that timed out. An assignment may come back to this watcher: then the
        // version has to be seen again.
        if Task.isCancelled {
            source.forget()
            return .interrupted
        }
        if case .timeout(let seen) = fenceOutcome {
            report(.fenceTimeout(seen: seen))
            adoption.notes.hasFenceTimedOut = true
        }
        do {
            // nil: the store found that this content is current by now.
            guard let version = try await store.adopt(adoption) else { return .current(sight.content.version) }
            return .adopted(version.version, origin: sight.content.version, fenceOutcome)
        } catch {
            return refused(OriginProblem(.store, "the version could not be committed: \(error)"))
        }
    }

    /// The next look shows it again.
    private func refused(_ problem: OriginProblem) -> WatchState.Outcome {
        source.forget()
        return .failed(problem)
    }

    private func waitAtFence(_ sight: OriginPoll.Sight) async -> Fence.Outcome? {
        guard let fence else { return nil }
        return await fence.wait(
            for: Fence.Goal(
                version: sight.content.version, etag: sight.etag, content: sight.content,
                before: store.currentTemplates[scope]?.template))
    }

    /// Report about a source that is worth a line in the log; each of them once, however often it is looked at.
    package enum Report: Sendable, Hashable {
        case adopted(VersionNumber, hasFenceTimedOut: Bool)
        /// Something else is wrong than before.
        case problem(OriginProblem)
        /// All is well again, after so many failed looks.
        case recovered(failures: Int)
        /// The origin's public answer did not show the version in time; `seen` is what it showed last.
        case fenceTimeout(seen: String)
    }
}
