/// Changes that a newly fetched configuration would make once it is activated.
public final class RemoteConfigUpdate: Sendable, CustomStringConvertible {
    /// Parameters added, removed, of another value, or of other experiment, rollout or personalization metadata,
    /// compared with what is active. Never empty.
    public let updatedKeys: Set<String>

    init(updatedKeys: Set<String>) { self.updatedKeys = updatedKeys }

    /// The updated keys in alphabetical order.
    public var description: String { "updated keys: \(updatedKeys.sorted().joined(separator: ", "))" }
}

/// Stands for an update listener that was added.
public final class ConfigUpdateListenerRegistration: Sendable {
    private let onRemove: Locked<(@Sendable () -> Void)?>

    init(onRemove: @escaping @Sendable () -> Void) { self.onRemove = Locked(onRemove) }

    /// The listener is not called any more. The connection is closed with the last listener. Again: no effect.
    public func remove() {
        let remove = onRemove.withLock { onRemove in
            defer { onRemove = nil }
            return onRemove
        }
        remove?()
    }
}

/// The updates of a ``RemoteConfig`` as an asynchronous sequence, which listens while it is iterated.
///
/// ```swift
/// for try await update in RemoteConfig.remoteConfig().configUpdates {
///     try await RemoteConfig.remoteConfig().activate()
/// }
/// ```
///
/// A consumer that is slower than the updates finds those it missed united in one. Errors of a
/// ``RemoteConfigUpdateError`` end the iteration, as in Firebase's SDK; iterate again to go on listening.
public struct RemoteConfigUpdateSequence: AsyncSequence, Sendable {
    /// One update.
    public typealias Element = RemoteConfigUpdate

    let listen:
        @Sendable (@escaping @Sendable (RemoteConfigUpdate?, (any Error)?) -> Void) -> ConfigUpdateListenerRegistration

    /// Listens until the iterator is gone.
    public func makeAsyncIterator() -> Iterator { Iterator(UpdateMailbox(listen: listen)) }

    /// The updates of one listener; throws a ``RemoteConfigUpdateError`` and goes on after it.
    public struct Iterator: AsyncIteratorProtocol {
        private let mailbox: UpdateMailbox

        init(_ mailbox: UpdateMailbox) { self.mailbox = mailbox }

        /// The next update; nil once the iterating task is cancelled.
        public mutating func next() async throws -> RemoteConfigUpdate? { try await mailbox.next() }
    }
}

/// The one update a slow consumer has not taken yet.
final class UpdateMailbox: Sendable {
    fileprivate struct State: Sendable {
        var keys: Set<String> = []
        var error: (any Error)?
        var waiting: CheckedContinuation<RemoteConfigUpdate?, any Error>?
        var isEnded = false
    }

    private let state = Locked(State())
    private let registration = Locked<ConfigUpdateListenerRegistration?>(nil)

    init(
        listen: (@escaping @Sendable (RemoteConfigUpdate?, (any Error)?) -> Void) -> ConfigUpdateListenerRegistration
    ) {
        let registration = listen { [weak self] update, error in self?.put(update, error) }
        self.registration.withLock { $0 = registration }
    }

    deinit { registration.withLock { $0 }?.remove() }

    func next() async throws -> RemoteConfigUpdate? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // A cancellation before the continuation waits has marked the end, which `take()` finds.
                let ready = state.withLock { state in
                    let ready = state.take()
                    if ready == nil { state.waiting = continuation }
                    return ready
                }
                if let ready { continuation.resume(with: ready) }
            }
        } onCancel: {
            end()
        }
    }

    private func put(_ update: RemoteConfigUpdate?, _ error: (any Error)?) {
        let delivery = state.withLock { state in
            if let update { state.keys.formUnion(update.updatedKeys) }
            if let error { state.error = error }
            return state.deliver()
        }
        delivery?()
    }

    private func end() {
        registration.withLock { $0 }?.remove()
        let delivery = state.withLock { state in
            state.isEnded = true
            return state.deliver()
        }
        delivery?()
    }
}

extension UpdateMailbox.State {
    /// Update that is there to be taken; nil when the consumer has to wait.
    fileprivate mutating func take() -> Result<RemoteConfigUpdate?, any Error>? {
        if !keys.isEmpty {
            defer { keys = [] }
            return .success(RemoteConfigUpdate(updatedKeys: keys))
        }
        if let error {
            self.error = nil
            isEnded = true
            return .failure(error)
        }
        return isEnded ? .success(nil) : nil
    }

    /// Hands what is there to a consumer that waits.
    fileprivate mutating func deliver() -> (@Sendable () -> Void)? {
        guard let waiting, let ready = take() else { return nil }
        self.waiting = nil
        return { waiting.resume(with: ready) }
    }
}
