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
/// Clients of the same app and environment share one cache.
public final class RemoteConfigClient: Sendable {
    private struct State: Sendable {
        var listeners: [UUID: RemoteConfigEventListener] = [:]
        /// Set by the first start; stops the refresh and the listening.
        var stop: (@Sendable () -> Void)?
        /// The values that `snapshot` keeps to; nil until there are any.
        var snapshot: [String: String]?
        /// The first request under way.
        var first: Task<Void, Never>?
    }

    /// How the client behaves.
    public let configuration: RemoteConfigConfiguration
    private let app: StalecastApp
    private let keeper: ConfigKeeper
    private let state = Locked(State())
    private let exchanges = UUID()

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
        keeper = app.keeper(namespace: app.options.namespace)
        let active = keeper.state.withLock { $0.stored.active?.entries }
        state.withLock { $0.snapshot = active }
        keeper.state.withLock { state in
            state.exchangeListeners[exchanges] = { [weak self] report in self?.completed(report) }
        }
    }

    deinit {
        state.withLock { $0.stop }?()
        keeper.state.withLock { $0.exchangeListeners[exchanges] = nil }
    }

    /// Warms the client up: begins the background refresh and the listening, which ``remoteConfig()`` does otherwise.
    /// With ``RemoteConfigUpdateBehaviour/actual`` there is neither. Again: no effect.
    public func start() {
        guard let interval = configuration.updateBehaviour.timeInterval else { return }
        let isFirst = state.withLock { state in
            guard state.stop == nil else { return false }
            state.stop = {}
            return true
        }
        guard isFirst else { return }
        let stop = begin(every: interval)
        state.withLock { $0.stop = stop }
    }

    /// The values, as the behaviour says: at once when there are any, else after the first request.
    /// ``RemoteConfigUpdateBehaviour/actual`` always asks the server first and, when that fails, answers from the cache.
    public func remoteConfig() async -> RemoteConfigView {
        start()
        switch configuration.updateBehaviour {
        case .actual:
            await refresh()
            return RemoteConfigView(values: keeper.activeEntries ?? [:])
        case .default:
            if keeper.activeEntries == nil { await firstRequest() }
            return RemoteConfigView(keeper: keeper)
        case .snapshot:
            if state.withLock({ $0.snapshot }) == nil { await firstRequest() }
            let values = state.withLock { state in
                if state.snapshot == nil { state.snapshot = keeper.activeEntries }
                return state.snapshot
            }
            return RemoteConfigView(values: values ?? [:])
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

    // MARK: Requests

    /// Starts what goes on in the background and says how to end it.
    private func begin(every interval: TimeInterval) -> @Sendable () -> Void {
        let refresh = Task { [weak self, environment = app.environment] in
            repeat {
                await self?.refresh()
                // Cancelled by `stop`, which the client's end calls.
                do { try await environment.sleep(interval) } catch { return }
            } while !Task.isCancelled
        }
        let listening = app.remoteConfig(namespace: nil).addOnConfigUpdateListener { _, _ in }
        return {
            refresh.cancel()
            listening.remove()
        }
    }

    private func refresh() async {
        let signals = configuration.signals
        keeper.change { $0.stored.customSignals = signals }
        _ = await keeper.fetch(.app(interval: 0))
        await keeper.flush()
    }

    /// The request that a client without any values waits for, once for all who wait.
    private func firstRequest() async {
        let first = state.withLock { state in
            if let first = state.first { return first }
            let first = Task {
                await self.refresh()
                self.state.withLock { $0.first = nil }
            }
            state.first = first
            return first
        }
        await first.value
    }

    private func completed(_ report: FetchReport) {
        let isUpdate = keeper.activate() != nil
        let listeners = state.withLock { Array($0.listeners.values) }
        let error = report.error
        if listeners.isEmpty { return }
        // Ends with the write of the cache.
        Task { [app, keeper] in
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

extension ConfigKeeper {
    /// The values activated last; nil when none ever were.
    fileprivate var activeEntries: [String: String]? { state.withLock { $0.stored.active?.entries } }
}
