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

    /// ``fetch()`` with a completion handler: the status, and with `failure` or `throttled` a ``RemoteConfigError``.
    public func fetch(completionHandler: (@Sendable (RemoteConfigFetchStatus, (any Error)?) -> Void)? = nil) {
        fetch(interval: nil, completionHandler)
    }

    /// ``fetch(withExpirationDuration:)`` with a completion handler.
    public func fetch(
        withExpirationDuration expirationDuration: TimeInterval,
        completionHandler: (@Sendable (RemoteConfigFetchStatus, (any Error)?) -> Void)? = nil
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
    public func activate(completionHandler: (@Sendable (Bool, (any Error)?) -> Void)? = nil) {
        let isNew = keeper.activate() != nil
        complete { completionHandler?(isNew, nil) }
    }

    /// Fetches and activates. When the fetch fails, what was fetched before is activated all the same.
    ///
    /// - Throws: ``RemoteConfigError`` of the fetch.
    @discardableResult
    public func fetchAndActivate() async throws -> RemoteConfigFetchAndActivateStatus {
        let (isNew, error) = await fetchedAndActivated()
        if let error { throw error }
        return isNew ? .successFetchedFromRemote : .successUsingPreFetchedData
    }

    /// ``fetchAndActivate()`` with a completion handler.
    public func fetchAndActivate(
        completionHandler: (@Sendable (RemoteConfigFetchAndActivateStatus, (any Error)?) -> Void)? = nil
    ) {
        // Ends with the fetch's timeout.
        Task {
            let (isNew, error) = await fetchedAndActivated()
            let status: RemoteConfigFetchAndActivateStatus =
                error != nil ? .error : isNew ? .successFetchedFromRemote : .successUsingPreFetchedData
            app.callbacks.run { completionHandler?(status, error) }
        }
    }

    private func fetchedAndActivated() async -> (isNew: Bool, error: RemoteConfigError?) {
        let report = await keeper.fetch(.app(interval: nil))
        let changed = keeper.activate()
        await keeper.flush()
        return (changed != nil, report.error)
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

    private func complete(_ body: @escaping @Sendable () -> Void) {
        // Ends with the write of the cache.
        Task {
            await keeper.flush()
            app.callbacks.run(body)
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
        case .throttled(let end): RemoteConfigError(throttledUntil: end)
        case .failed(let failure): RemoteConfigError(failure)
        }
    }
}
