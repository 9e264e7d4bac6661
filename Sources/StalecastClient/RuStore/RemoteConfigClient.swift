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
        /// The account in use; nil before the first request.
        var use: AccountUse?
        /// By account, the values that `snapshot` keeps to; none until there are any.
        var snapshots: [String?: [String: String]] = [:]
    }

    /// How the client behaves.
    public let configuration: RemoteConfigConfiguration
    private let app: StalecastApp
    private let state = Locked(State())

    /// Reads the cache; asks nobody.
    ///
    /// - Parameters:
    ///   - appID: sent as the app's id, and names the cache.
    ///   - options: where the server is; nil (default) takes the default app's options.
    /// - Precondition: `options` is given, or ``Stalecast/configure(options:)`` was called.
    public convenience init(
        appID: String, configuration: RemoteConfigConfiguration = RemoteConfigConfiguration(),
        options: StalecastOptions? = nil
    ) {
        var options = options ?? Stalecast.requiredApp().options
        options.appID = appID
        let name = "rustore.\(appID).\(configuration.environment)"
        self.init(
            app: Stalecast.app(name: name, orConfigured: options, environment: .live), configuration: configuration)
    }

    package init(app: StalecastApp, configuration: RemoteConfigConfiguration) {
        self.app = app
        self.configuration = configuration
        let account = configuration.request.account
        let active = app.keeper(namespace: app.options.namespace, account: account).activeEntries
        state.withLock { $0.snapshots[account] = active }
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

    /// The values, as the behaviour says: at once when there are any, else after the first request.
    /// ``RemoteConfigUpdateBehaviour/actual`` always asks the server first and, when that fails, answers from the cache.
    public func remoteConfig() async -> RemoteConfigView {
        start()
        let request = configuration.request
        let keeper = use(of: request.account).keeper
        switch configuration.updateBehaviour {
        case .actual:
            await fetch(request)
            return RemoteConfigView(values: keeper.activeEntries ?? [:])
        case .default:
            if keeper.activeEntries == nil { await fetch(request) }
            return RemoteConfigView(keeper: keeper)
        case .snapshot:
            if snapshot(of: request.account, keeper) == nil { await fetch(request) }
            return RemoteConfigView(values: snapshot(of: request.account, keeper) ?? [:])
        }
    }

    /// Has a listener told of the client's work for as long as the client lives.
    ///
    /// - Returns: its registration, to end that earlier.
    @discardableResult
    public func addEventListener(_ listener: RemoteConfigEventListener) -> ConfigUpdateListenerRegistration {
        let id = UUID()
        state.withLock { $0.listeners[id] = listener }
        return ConfigUpdateListenerRegistration { [weak self] in self?.state.withLock { $0.listeners[id] = nil } }
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
    private func snapshot(of account: String?, _ keeper: ConfigKeeper) -> [String: String]? {
        let active = keeper.activeEntries
        return state.withLock { state in
            if state.snapshots[account] == nil { state.snapshots[account] = active }
            return state.snapshots[account]
        }
    }

    // MARK: Requests

    private func refreshing(every interval: TimeInterval) -> Task<Void, Never> {
        Task { [weak self, environment = app.environment] in
            repeat {
                if let self { await self.fetch(self.configuration.request) }
                // Cancelled by the client's end.
                do { try await environment.sleep(interval) } catch { return }
            } while !Task.isCancelled
        }
    }

    /// Asks the server; whoever asks for the same account meanwhile shares the answer. Ends once it is stored.
    private func fetch(_ request: RemoteConfigConfiguration.Request) async {
        let keeper = use(of: request.account).keeper
        keeper.change { $0.stored.customSignals = request.signals }
        _ = await keeper.fetch(.app(interval: 0))
        await keeper.flush()
    }

    private func completed(_ use: AccountUse, _ report: FetchReport) {
        _ = use.keeper.activate()
        let isUpdate = use.hasNews()
        let listeners = state.withLock { Array($0.listeners.values) }
        let error = report.error
        if listeners.isEmpty { return }
        // Ends with the write of the cache.
        Task { [app, keeper = use.keeper] in
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
