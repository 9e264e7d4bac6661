import Synchronization

/// One kind of the shared records as its target uses it: a copy in memory that follows them, changes that are decided
/// again when another node was quicker, and a pass over what is new for those who keep a copy on disk.
package final class EntryTable: Sendable {
    /// Change of an entry.
    package enum Change: Sendable {
        /// - Parameter over: revision of the entry that is replaced; nil makes a new one.
        case put(String, [UInt8], over: Int64?)
        case remove(String, at: Int64)
        case nothing
    }

    private struct State {
        var entries: [String: SharedRecord] = [:]
        /// Revisions of the entries that are copied already.
        var copied: [String: Int64] = [:]
        var isRead = false
        /// A pass that failed is repeated after the pause.
        var isRetryDue = false
    }

    package let kind: String
    private let informer: Informer
    /// Pause before a failed pass is repeated.
    private let pause: Duration
    private let state = Mutex(State())
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// Number of times a change is decided again when another node was quicker.
    private static let attempts = 20
    /// Time that a change waits for the first read.
    private static let patience = Duration.seconds(5)

    /// - Parameter pause: default 1 s.
    package init(_ informer: Informer, kind: String, pause: Duration = .seconds(1)) {
        (self.informer, self.kind, self.pause) = (informer, kind, pause)
    }

    // MARK: Reading

    /// Whether the entries were all read once since ``follow(_:pass:)`` began.
    package var isRead: Bool { state.withLock { $0.isRead } }

    package subscript(_ id: String) -> SharedRecord? { state.withLock { $0.entries[id] } }

    /// Entries by id.
    package var entries: [String: SharedRecord] { state.withLock { $0.entries } }

    /// Waits for the first read, up to 5 s: a node that takes requests since a moment ago has not made it yet.
    package func untilRead() async throws(LogError) {
        let end = ContinuousClock.now + Self.patience
        while !isRead {
            // Cancelled: no caller waits.
            guard ContinuousClock.now < end, (try? await Task.sleep(for: .milliseconds(10))) != nil else {
                throw .notDone("what the cluster shares has not been read yet")
            }
        }
    }

    // MARK: Changing

    /// Changes an entry; the change is in ``entries`` when this returns.
    ///
    /// - Parameters:
    ///   - decide: from the entries as they are; called again after another node's change. It is called also when the
    ///     entries cannot be read, and then its decision is dropped.
    ///   - failure: for an error of the records; nil: other nodes were quicker each time.
    package func change<Value, Failure: Error>(
        _ decide: () async throws(Failure) -> (Value, Change), failure: (LogError?) -> Failure
    ) async throws(Failure) -> Value {
        do throws(LogError) { try await untilRead() } catch {
            // What it does at this node counts anyway. What it decides from nothing does not.
            _ = try? await decide()
            throw failure(error)
        }
        for _ in 0..<Self.attempts {
            let (value, change) = try await decide()
            if case .nothing = change { return value }
            do throws(LogError) {
                if try await make(change) { return value }
            } catch {
                throw failure(error)
            }
        }
        throw failure(nil)
    }

    /// - Returns: false when another revision is there; nothing was changed then.
    package func make(_ change: Change) async throws(LogError) -> Bool {
        let outcome: RecordOutcome
        switch change {
        case .nothing: return true
        case .put(let id, let value, let revision):
            outcome = try await informer.put(value, to: RecordName(kind, id), over: revision)
        case .remove(let id, let revision): outcome = try await informer.remove(RecordName(kind, id), at: revision)
        }
        if case .done = outcome { return true }
        return false
    }

    // MARK: Following

    /// Makes the next pass soon, also when nothing has changed.
    package func wake() { wakes.continuation.yield() }

    /// Follows the entries until the task is cancelled. Once.
    ///
    /// - Parameters:
    ///   - heard: each entry that is new or changed, in their order; it must be quick.
    ///   - pass: runs after changes, once all entries were read; false: it is to be run again.
    package func follow(
        _ heard: @escaping @Sendable (SharedRecord) -> Void = { _ in }, pass: () async -> Bool
    ) async {
        await informer.observe(kind) { [self] change in
            // Called first, so that the result of `heard` is never older than the entry in ``entries``.
            if case .put(let record) = change { heard(record) }
            take(change)
            wake()
        }
        await withDiscardingTaskGroup { group in
            for await _ in wakes.stream {
                guard isRead, await !pass(), beginsRetry() else { continue }
                group.addTask { [self] in
                    // Cancelled: the loop ends.
                    try? await Task.sleep(for: pause)
                    state.withLock { $0.isRetryDue = false }
                    wake()
                }
            }
            group.cancelAll()
        }
    }

    /// - Returns: false when a repetition is due already, whatever woke the pass that failed.
    private func beginsRetry() -> Bool {
        state.withLock { state in
            defer { state.isRetryDue = true }
            return !state.isRetryDue
        }
    }

    private func take(_ change: Informer.Change) {
        state.withLock { state in
            switch change {
            case .put(let record): state.entries[record.name.id] = record
            case .removed(let name): (state.entries[name.id], state.copied[name.id]) = (nil, nil)
            case .complete: state.isRead = true
            }
        }
    }

    /// Copies every entry that has changed since it was copied last.
    ///
    /// - Parameter copy: false: it is to be copied again.
    /// - Returns: whether all are copied.
    package func copyChanged(_ copy: (SharedRecord) async -> Bool) async -> Bool {
        let due = state.withLock { state in
            state.entries.values.filter { state.copied[$0.name.id] != $0.revision }
        }
        var isDone = true
        for record in due {
            if await copy(record) {
                // Notes the revision that was copied, because the entry may have changed during the copy.
                state.withLock { $0.copied[record.name.id] = record.revision }
            } else {
                isDone = false
            }
        }
        return isDone
    }
}
