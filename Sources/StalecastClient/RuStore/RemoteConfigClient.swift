import Foundation

/// The configuration of an app, with the API of RuStore Remote Config. Keep a strong reference: the background refresh
/// ends with the client.
///
/// ```swift
/// let client = RemoteConfigClient(appID: "your_app_id")
/// let remoteConfig = await client.remoteConfig()
/// let limit = remoteConfig.integer(forKey: "limit")
/// ```
///
/// Besides refreshing at intervals it listens for messages, so that a new version is there within milliseconds.
///
/// Clients of the same app, environment and account share one cache; values of different accounts never meet. The
/// provider is asked for the account when the client is made and before each request. After a change the next
/// ``remoteConfig()`` answers for the new account, and objects obtained before keep the values of theirs.
public final class RemoteConfigClient: Sendable {
    private struct State: Sendable {
        var listeners: [UUID: RemoteConfigEventListener] = [:]
        /// Set by the first start; ends with the client.
        var refreshing: Task<Void, Never>?
        var isStarted = false
        /// Tells listeners of the request that ended last, after those before it.
        var telling: Task<Void, Never>?
        /// The account in use; nil before the first request.
        var use: AccountUse?
        /// Values that `snapshot` keeps to, by account; none until there are any.
        var snapshots: [String?: [String: String]] = [:]
    }

    /// Settings of the client.
    public let configuration: RemoteConfigConfiguration
    private let app: StalecastApp
    private let state = Locked(State())

    /// Reads the cache; asks no server.
    ///
    /// - Parameters:
    ///   - appID: sent as the app's id, and names the cache.
    ///   - options: where the server is; nil (default) takes the default app's options. Of several clients of one app
    ///     and environment on one server the first one's count.
    /// - Precondition: `options` is given, or ``Stalecast/configure(options:)`` was called.
    public convenience init(
        appID: String, configuration: RemoteConfigConfiguration = RemoteConfigConfiguration(),
        options: StalecastOptions? = nil
    ) {
        var options = options ?? Stalecast.requiredApp().options
        options.appID = appID
        let name = "rustore.\(appID).\(configuration.environment)"
        var app = Stalecast.app(name: name, orConfigured: options, environment: .live)
        // Clients of one app share it; one that is to ask another server must not get the first one's answers.
        if app.options.place != options.place {
            app = Stalecast.app(name: "\(name).\(options.place)", orConfigured: options, environment: .live)
        }
        self.init(app: app, configuration: configuration)
    }

    package init(app: StalecastApp, configuration: RemoteConfigConfiguration) {
        self.app = app
        self.configuration = configuration
        // `snapshot` keeps the values that are active now, unless they are too old.
        if let interval = configuration.updateBehaviour.timeInterval {
            let account = configuration.request.account
            let keeper = app.keeper(namespace: app.options.namespace, account: account)
            if keeper.freshFor(interval) > 0 { state.withLock { $0.snapshots[account] = keeper.activeEntries } }
        }
    }

    deinit {
        let (refreshing, use) = state.withLock { ($0.refreshing, $0.use) }
        refreshing?.cancel()
        use?.end()
    }

    /// Warms the client up: begins the background refresh and the listening, which ``remoteConfig()`` does otherwise.
    /// With ``RemoteConfigUpdateBehaviour/actual`` there is neither. Again: no effect.
    public func start() {
        guard let interval = configuration.updateBehaviour.timeInterval else { return }
        let isFirst = state.withLock { state in
            defer { state.isStarted = true }
            return !state.isStarted
        }
        guard isFirst else { return }
        let refreshing = refreshing(every: interval)
        state.withLock { $0.refreshing = refreshing }
    }

    /// The values, by ``RemoteConfigUpdateBehaviour``: from the cache at once while it is recent enough, else after a
    /// request; if the request fails, from the cache.
    public func remoteConfig() async -> RemoteConfigView {
        start()
        let request = configuration.request
        let use = use(of: request.account)
        switch configuration.updateBehaviour {
        case .actual:
            await fetch(request, .actual)
            return RemoteConfigView(values: use.keeper.activeEntries ?? [:])
        case .default(let interval):
            if use.keeper.freshFor(interval) == 0 { await fetch(request, .app(interval: interval)) }
            return RemoteConfigView(keeper: use.keeper)
        case .snapshot(let interval):
            if let former = state.withLock({ $0.snapshots[use.account] }) { return RemoteConfigView(values: former) }
            if use.keeper.freshFor(interval) == 0 { await fetch(request, .app(interval: interval)) }
            return RemoteConfigView(values: snapshot(of: use) ?? [:])
        }
    }

    /// Has a listener told of the client's work for as long as the client lives.
    ///
    /// - Returns: its registration, to end that earlier.
    @discardableResult
    public func addEventListener(_ listener: RemoteConfigEventListener) -> ConfigUpdateListenerRegistration {
        let id = UUID()
        state.withLock { $0.listeners[id] = listener }
        return ConfigUpdateListenerRegistration { [weak self] in
            // The closures end outside the lock: what they own may call the client in its `deinit`.
            _ = self?.state.withLock { $0.listeners.removeValue(forKey: id) }
        }
    }

    // MARK: Accounts

    /// The account of a request that is about to be made; the client is done with a former one.
    private func use(of account: String?) -> AccountUse {
        if let use = state.withLock({ $0.use }), use.account == account { return use }
        let isListening = configuration.updateBehaviour.timeInterval != nil
        let use = AccountUse(account, of: app, isListening: isListening) { [weak self] use, report in
            self?.completed(use, report)
        }
        let (winner, loser) = state.withLock { state -> (AccountUse, AccountUse?) in
            // Another request may have been as quick.
            if let other = state.use, other.account == account { return (other, use) }
            defer { state.use = use }
            return (use, state.use)
        }
        loser?.end()
        return winner
    }

    /// The values that `snapshot` keeps to: those there were first.
    private func snapshot(of use: AccountUse) -> [String: String]? {
        let active = use.keeper.activeEntries
        return state.withLock { state in
            if state.snapshots[use.account] == nil { state.snapshots[use.account] = active }
            return state.snapshots[use.account]
        }
    }

    // MARK: Requests

    private func refreshing(every interval: TimeInterval) -> Task<Void, Never> {
        Task { [weak self, environment = app.environment] in
            while let pause = await self?.refreshed(interval) {
                // Cancelled by the client's end.
                do { try await environment.sleep(pause) } catch { return }
            }
        }
    }

    /// Asks the server if what is held is as old as the interval.
    ///
    /// - Returns: seconds until this is to be done again.
    private func refreshed(_ interval: TimeInterval) async -> TimeInterval {
        let request = configuration.request
        let keeper = use(of: request.account).keeper
        let left = keeper.freshFor(interval)
        if left > 0 { return left }
        // The clock of an app that was deleted asks for nothing more.
        if keeper.isClosed { return interval }
        await fetch(request, .app(interval: interval))
        return interval
    }

    /// Asks the server; calls for the same account meanwhile share the answer. Ends once it is stored.
    private func fetch(_ request: RemoteConfigRequestParameters, _ demand: FetchPolicy.Demand) async {
        let use = use(of: request.account)
        use.keeper.change { $0.stored.customSignals = request.signals }
        let report = await use.keeper.fetch(demand)
        // No request was made, and no listener would hear why.
        if case .throttled(_, nil) = report { completed(use, report) }
        // What an earlier process fetched may not be in force yet.
        if report == .cached { _ = use.keeper.activate() }
        await use.keeper.flush()
    }

    private func completed(_ use: AccountUse, _ report: FetchReport) {
        _ = use.keeper.activate()
        let isUpdate = use.hasNews()
        let listeners = state.withLock { Array($0.listeners.values) }
        let error = report.error
        if listeners.isEmpty { return }
        state.withLock { state in
            // Ends with the write of the cache; listeners hear of requests in the order they ended.
            state.telling = Task { [app, keeper = use.keeper, former = state.telling] in
                await former?.value
                await keeper.flush()
                app.callbacks.run {
                    for listener in listeners {
                        listener.didCompleteNetworkRequest(error)
                        if isUpdate { listener.didUpdatePersistentStorage() }
                    }
                }
            }
        }
    }
}

extension StalecastOptions {
    /// Server and project of these options. Equal places have equal values.
    fileprivate var place: String { "\(endpoint.absoluteString) \(project) \(namespace)" }
}
