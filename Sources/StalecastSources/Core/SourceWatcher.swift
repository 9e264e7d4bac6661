package import StalecastWire
import Synchronization

/// Looks at one scope's source, again and again and whenever it is told to, and has what is new adopted: one look at a
/// time, of all triggers that come meanwhile one more.
package final class SourceWatcher: Sendable {
    package let scope: Scope
    private let source: any TemplateSource
    private let fence: Fence?
    private let sink: SourceSink
    private let schedule: LookSchedule
    private let report: @Sendable (SourceReport) -> Void
    private let bell = Bell()
    private let state: Mutex<WatchState>

    /// - Parameters:
    ///   - fence: nil announces at once.
    ///   - report: hears what an operator should know; any thread.
    package init(
        _ scope: Scope, source: any TemplateSource, fence: Fence? = nil, sink: SourceSink,
        schedule: LookSchedule = LookSchedule(), report: @escaping @Sendable (SourceReport) -> Void = { _ in }
    ) {
        self.scope = scope
        self.source = source
        self.fence = fence
        self.sink = sink
        self.schedule = schedule
        self.report = report
        state = Mutex(WatchState(SourceStatus(scope: scope, kind: source.kind, place: source.place)))
    }

    package var status: SourceStatus {
        var status = state.withLock(\.status)
        status.listening = source.listening
        return status
    }

    /// Looks as soon as the look under way is over. Returns at once; any thread.
    ///
    /// - Parameter expected: the version that should be there; while it is not, the next looks follow soon.
    package func look(expecting expected: VersionNumber? = nil) {
        state.withLock { $0.triggered(expecting: expected) }
        bell.ring()
    }

    /// Looks at once, and goes on until the task is cancelled. What was seen and not adopted by then is seen again
    /// after the next start.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.source.listen { self.look(expecting: $0) } }
            group.addTask { await self.watch() }
            await group.waitForAll()
        }
    }

    private func watch() async {
        while !Task.isCancelled {
            state.withLock { $0.began() }
            let outcome = await outcomeOfLook()
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
            let left = state.withLock { $0.nextLook } - .now
            if left <= .zero { return }
            await bell.wait(atMost: left)
        }
    }

    // MARK: One look

    private func outcomeOfLook() async -> LookOutcome {
        switch await source.look() {
        case .unchanged: return .unchanged
        case .failed(let problem): return .failed(problem)
        case .seen(let sight): return await take(sight)
        }
    }

    private func take(_ sight: OriginSight) async -> LookOutcome {
        switch sink.judge(scope, sight) {
        case .isCurrent: return .current(sight.content.version)
        case .isRefused(let problem):
            source.forget()
            return .failed(problem)
        case .isNew: break
        }
        let seenAt = Timestamp.now()
        let verdict = await waitAtFence(sight)
        // Ending the daemon must not pass for a fence that timed out.
        if Task.isCancelled { return .interrupted }
        if case .timeout(let seen) = verdict { report(.fenceTimeout(seen: seen)) }
        let observation = Observation(
            scope: scope, sight: sight, seenAt: seenAt, hasFenceTimedOut: verdict?.isTimeout ?? false)
        switch await sink.adopt(observation) {
        case .adopted(let version):
            return .adopted(version, origin: sight.content.version, verdict)
        case .unchanged: return .current(sight.content.version)
        case .failed(let problem):
            source.forget()
            return .failed(problem)
        }
    }

    private func waitAtFence(_ sight: OriginSight) async -> FenceVerdict? {
        guard let fence else { return nil }
        return await fence.wait(
            for: FenceGoal(version: sight.content.version, etag: sight.etag, content: sight.content))
    }
}

extension FenceVerdict {
    fileprivate var isTimeout: Bool { if case .timeout = self { true } else { false } }
}
