import Foundation

/// Keeps the configuration of one namespace for one app: fetched and active content, throttling, the flag that a
/// message set. Both public APIs stand on it. Values are read from memory; the file is written behind.
final class ConfigKeeper: Sendable {
    let options: StalecastOptions
    let namespace: String
    let environment: ClientEnvironment
    let installation: InstallationKeeper
    let callbacks: CallbackQueue
    let file: RecordFile<StoredConfig>
    let state: Locked<KeeperState>
    /// Token that fetches show.
    let bearer = BearerToken()

    /// Reads the cache from its file, so that values are there when it returns. Never waits for the network.
    ///
    /// - Parameter account: whose values they are; a cache of another account is not used. nil for an app's own.
    init(
        options: StalecastOptions, namespace: String, account: String?, cache: URL, installation: InstallationKeeper,
        callbacks: CallbackQueue, environment: ClientEnvironment
    ) {
        (self.options, self.namespace, self.environment) = (options, namespace, environment)
        (self.installation, self.callbacks) = (installation, callbacks)
        file = RecordFile(url: cache, onProblem: callbacks.report)
        var stored = file.load() ?? StoredConfig()
        if stored.account != account { stored = StoredConfig() }
        stored.account = account
        stored.belong(to: "\(options.endpoint.absoluteString) \(options.project)")
        state = Locked(KeeperState(stored: stored))
    }

    /// Ends what is under way on its own account; fetches the app asked for end by themselves.
    func close() {
        let (timer, listeners) = state.withLock { state in
            state.isClosed = true
            state.announced.cancel()
            defer { (state.timer, state.listeners) = (nil, KeeperState.Listeners()) }
            return (state.timer, state.listeners)
        }
        timer?.cancel()
        // The app's closures end here, outside the lock: what they own may call the keeper in its `deinit`.
        withExtendedLifetime(listeners) {}
    }

    /// Changes state and has the stored part of it written, if that changed.
    func change<Result>(_ body: (inout KeeperState) -> Result) -> Result {
        state.withLock { state in
            let before = state.stored
            defer { if state.stored != before { file.save(state.stored) } }
            return body(&state)
        }
    }

    // MARK: Values

    /// The value of a parameter and where it comes from: the active content, else the defaults, else nothing.
    func value(forKey key: String) -> (text: String, source: RemoteConfigSource) {
        state.withLock { state in
            if let text = state.stored.active?.entries[key] { return (text, .remote) }
            if let text = state.defaults[key] { return (text, .default) }
            return ("", .static)
        }
    }

    /// The names known to a source; `static` has none.
    func keys(from source: RemoteConfigSource) -> [String] {
        state.withLock { state in
            switch source {
            case .remote: Array(state.stored.active?.entries.keys ?? [:].keys)
            case .default: Array(state.defaults.keys)
            case .static: []
            }
        }
    }

    /// All values in force: the active content over the defaults.
    var values: [String: String] {
        state.withLock { $0.defaults.merging($0.stored.active?.entries ?? [:]) { _, active in active } }
    }

    // MARK: Activation

    /// Makes the fetched content active.
    ///
    /// - Returns: the parameters that changed; nil when there was nothing new to activate.
    func activate() -> Set<String>? {
        let (changed, listeners) = change { state -> (Set<String>?, [@Sendable (Set<String>) -> Void]) in
            guard let fetched = state.stored.fetched, fetched.isNew(after: state.stored.active) else {
                return (nil, [])
            }
            let changed = fetched.keysDiffering(from: state.stored.active ?? ConfigContent())
            state.stored.active = fetched
            return (changed, Array(state.listeners.activations.values))
        }
        if let changed { for listener in listeners { listener(changed) } }
        return changed
    }
}

extension ConfigContent {
    /// Whether activating this changes anything: by ETag, as the iOS SDK decides; without one by content.
    fileprivate func isNew(after active: ConfigContent?) -> Bool {
        guard let active else { return true }
        guard let etag, let other = active.etag else { return self != active }
        return etag != other
    }
}
