import Foundation

/// One account's storage in use by a ``RemoteConfigClient``: hears of its exchanges, and listens for messages where the
/// behaviour refreshes in the background. Ends with ``end()``.
final class AccountUse: Sendable {
    let account: String?
    let keeper: ConfigKeeper
    private let id = UUID()
    private let listening: ConfigUpdateListenerRegistration?
    /// The values in force when ``hasNews()`` was asked last.
    private let known: Locked<ConfigContent?>

    /// - Parameter completed: called after each exchange, on no particular thread.
    init(
        _ account: String?, of app: StalecastApp, isListening: Bool,
        completed: @escaping @Sendable (AccountUse, FetchReport) -> Void
    ) {
        let keeper = app.keeper(namespace: app.options.namespace, account: account)
        self.account = account
        self.keeper = keeper
        known = Locked(keeper.activeContent)
        listening =
            isListening
            ? RemoteConfig(app: app, keeper: keeper).addOnConfigUpdateListener { _, _ in } : nil
        keeper.state.withLock { state in
            state.listeners.exchanges[id] = { [weak self] report in if let self { completed(self, report) } }
        }
    }

    func end() {
        listening?.remove()
        _ = keeper.state.withLock { $0.listeners.exchanges.removeValue(forKey: id) }
    }

    /// Whether other values are in force than when this was asked last; the first time, than at the beginning. Each of
    /// several clients with one storage finds out for itself.
    func hasNews() -> Bool {
        let active = keeper.activeContent
        return known.withLock { known in
            defer { known = active }
            return known != active
        }
    }
}

extension ConfigKeeper {
    fileprivate var activeContent: ConfigContent? { state.withLock { $0.stored.active } }

    /// Whether the app was deleted.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Seconds until what is in force is as old as `interval`; 0 once it is, or when something else was fetched since.
    func freshFor(_ interval: TimeInterval) -> TimeInterval {
        let fetched = state.withLock { state in
            state.stored.active == nil || state.stored.active != state.stored.fetched ? nil : state.stored.lastFetchTime
        }
        guard let last = fetched else { return 0 }
        let age = environment.now().timeIntervalSince(last)
        // A negative age is that of a clock that was set back.
        return age < 0 ? 0 : max(0, interval - age)
    }

    /// The values activated last; nil when none ever were.
    var activeEntries: [String: String]? { activeContent?.entries }
}
