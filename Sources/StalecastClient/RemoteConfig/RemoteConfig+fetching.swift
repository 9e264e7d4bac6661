public import Foundation

extension RemoteConfig {
    /// Fetches unless what was fetched is younger than ``RemoteConfigSettings/minimumFetchInterval`` and no message
    /// said that it is stale. What is fetched counts after ``activate()``. An answer of an older version than the one held
    /// is not taken for five minutes (<doc:WhenAnAnswerIsOlder>).
    ///
    /// - Returns: always `success`; also when the server was not asked.
    /// - Throws: ``RemoteConfigError``.
    @discardableResult
    public func fetch() async throws -> RemoteConfigFetchStatus {
        try await fetched(interval: nil)
    }

    /// ``fetch()`` with an interval of its own.
    ///
    /// - Parameter expirationDuration: seconds; 0 always asks.
    @discardableResult
    public func fetch(withExpirationDuration expirationDuration: TimeInterval) async throws -> RemoteConfigFetchStatus {
        try await fetched(interval: expirationDuration)
    }

    /// ``fetch()`` with a completion handler: the status, and with `failure` or `throttled` a ``RemoteConfigError``. It
    /// has no default, here and below: without one `try await fetch()` is the asynchronous method everywhere, also in
    /// the top-level code of a script, where it would otherwise not wait.
    public func fetch(completionHandler: (@Sendable (RemoteConfigFetchStatus, (any Error)?) -> Void)?) {
        fetch(interval: nil, completionHandler)
    }

    /// ``fetch(withExpirationDuration:)`` with a completion handler.
    public func fetch(
        withExpirationDuration expirationDuration: TimeInterval,
        completionHandler: (@Sendable (RemoteConfigFetchStatus, (any Error)?) -> Void)?
    ) {
        fetch(interval: expirationDuration, completionHandler)
    }

    /// Makes the fetched content the active one, durably.
    ///
    /// - Returns: whether there was something new.
    @discardableResult
    public func activate() async throws -> Bool {
        let changed = keeper.activate()
        await keeper.flush()
        return changed != nil
    }

    /// ``activate()`` with a completion handler; the error is always nil.
    public func activate(completion: (@Sendable (Bool, (any Error)?) -> Void)?) {
        let isNew = keeper.activate() != nil
        // Ends with the write of the cache.
        Task {
            await keeper.flush()
            app.callbacks.run { completion?(isNew, nil) }
        }
    }

    /// ``activate(completion:)`` under the label of the other methods. A trailing closure means that one.
    @_disfavoredOverload
    public func activate(completionHandler: (@Sendable (Bool, (any Error)?) -> Void)?) {
        activate(completion: completionHandler)
    }

    /// Fetches and, when that succeeds, activates, as in Firebase's SDK: after a failed fetch nothing changes. Whether
    /// anything new came into force, ``activate()`` says.
    ///
    /// - Throws: ``RemoteConfigError`` of the fetch.
    @discardableResult
    public func fetchAndActivate() async throws -> RemoteConfigFetchAndActivateStatus {
        if let error = await fetchedAndActivated() { throw error }
        return .successFetchedFromRemote
    }

    /// ``fetchAndActivate()`` with a completion handler.
    public func fetchAndActivate(
        completionHandler: (@Sendable (RemoteConfigFetchAndActivateStatus, (any Error)?) -> Void)?
    ) {
        // Ends with the fetch's timeout.
        Task {
            let error = await fetchedAndActivated()
            app.callbacks.run { completionHandler?(error == nil ? .successFetchedFromRemote : .error, error) }
        }
    }

    private func fetchedAndActivated() async -> RemoteConfigError? {
        let report = await keeper.fetch(.app(interval: nil))
        if report.error == nil { _ = keeper.activate() }
        await keeper.flush()
        return report.error
    }

    private func fetched(interval: TimeInterval?) async throws -> RemoteConfigFetchStatus {
        let report = await keeper.fetch(.app(interval: interval))
        await keeper.flush()
        if let error = report.error { throw error }
        return .success
    }

    private func fetch(
        interval: TimeInterval?, _ completionHandler: (@Sendable (RemoteConfigFetchStatus, (any Error)?) -> Void)?
    ) {
        // Ends with the fetch's timeout.
        Task {
            let report = await keeper.fetch(.app(interval: interval))
            await keeper.flush()
            app.callbacks.run { completionHandler?(report.status, report.error) }
        }
    }
}

extension FetchReport {
    var status: RemoteConfigFetchStatus {
        switch self {
        case .cached, .answered: .success
        case .throttled: .throttled
        case .failed: .failure
        }
    }

    var error: RemoteConfigError? {
        switch self {
        case .cached, .answered: nil
        case .throttled(let end, let failure): RemoteConfigError(throttledUntil: end, failure)
        case .failed(let failure): RemoteConfigError(failure)
        }
    }
}
