public import Foundation

/// A configured app: one installation, one connection, one cache directory, a configuration per namespace.
public final class StalecastApp: Sendable {
    /// Scope of one keeper's values.
    private struct Scope: Hashable, Sendable {
        var namespace: String
        /// nil for all but a ``RemoteConfigClient`` whose parameters name one.
        var account: String?

        /// The part of its file's name that follows the app's.
        var fileName: String {
            // The installation has a file of that name; `%` keeps this one apart from all other namespaces.
            let name = namespace == "installation" ? "%69nstallation" : CacheDirectory.fileName(namespace)
            return account.map { "\(name)@\(CacheDirectory.shortFileName($0))" } ?? name
        }
    }

    /// The app's own keepers stay; those of accounts, which come and go, live as long as they are used.
    private struct Kept: Sendable {
        var own: ConfigKeeper?
        weak var keeper: ConfigKeeper?
    }

    private struct State: Sendable {
        var keepers: [Scope: Kept] = [:]
        var configs: [String: RemoteConfig] = [:]
        var messaging: PushMessaging?
        /// The newest announced version of each namespace: a keeper that is new to a connection was not told.
        var announced: [String?: StaleNotice] = [:]
        var isDeleted = false

        /// Remembers an announcement until the server says that its store is another one.
        mutating func remember(_ notice: StaleNotice) {
            guard notice.version > announced[notice.namespace]?.version ?? 0 else { return }
            announced[notice.namespace] = notice
        }
    }

    /// Name as given to ``Stalecast/configure(name:options:)``.
    public let name: String
    /// Options with which it was configured.
    public let options: StalecastOptions

    let environment: ClientEnvironment
    let installation: InstallationKeeper
    let callbacks: CallbackQueue
    private let directory: URL
    private let state = Locked(State())
    private let realtime: Subscriptions

    package init(name: String, options: StalecastOptions, environment: ClientEnvironment) {
        (self.name, self.options, self.environment) = (name, options, environment)
        directory = options.cacheDirectory ?? CacheDirectory.standard()
        callbacks = CallbackQueue(options.callbackQueue, onProblem: options.onProblem)
        installation = InstallationKeeper(
            options: options, cache: Self.file(name, "installation", in: directory), callbacks: callbacks,
            environment: environment)
        realtime = Subscriptions(options: options, installation: installation)
    }

    /// The installation's id: 22 characters, the same for as long as the cache directory is kept.
    public var appInstanceID: String { installation.current.id }

    /// The time of the app's first start with this cache directory.
    public var firstOpenTime: Date { installation.current.firstOpenTime }

    /// Sets what Analytics would report of the user, for conditions on user properties; nil removes it. Kept until
    /// changed; takes effect with the next fetch.
    public func setUserProperty(_ value: String?, forName name: String) {
        installation.change { $0.userProperties[name] = value }
    }

    /// Ends the app's connection and timers and forgets the app, so that its name can be configured again. Its cache
    /// stays; objects made from it answer from memory.
    public func delete() {
        let (keepers, messaging) = state.withLock { state in
            state.isDeleted = true
            // They hold the app in turn.
            defer { (state.configs, state.messaging) = ([:], nil) }
            return (state.keepers.values.compactMap(\.keeper), state.messaging)
        }
        realtime.close()
        messaging?.end()
        for keeper in keepers { keeper.close() }
        Stalecast.forget(self)
    }

    // MARK: Lifecycle hooks

    /// The network changed, for example from Wi-Fi to mobile: a connection that waits tries again at once.
    public func networkChanged() { realtime.forEachConnection { $0.networkChanged() } }

    /// The app goes to the background: the connection is closed.
    public func enterBackground() { realtime.setBackground(true) }

    /// The app is back: the connection is opened, and what was announced meanwhile is fetched.
    public func enterForeground() { realtime.setBackground(false) }

    // MARK: Parts

    /// The configuration of a namespace; nil is ``StalecastOptions/namespace``. One object per namespace.
    func remoteConfig(namespace: String?) -> RemoteConfig {
        let keeper = keeper(namespace: namespace ?? options.namespace)
        return state.withLock { state in
            if let config = state.configs[keeper.namespace] { return config }
            let config = RemoteConfig(app: self, keeper: keeper)
            state.configs[keeper.namespace] = config
            return config
        }
    }

    func messaging() -> PushMessaging {
        state.withLock { state in
            if let messaging = state.messaging { return messaging }
            let messaging = PushMessaging(app: self)
            state.messaging = messaging
            return messaging
        }
    }

    /// - Parameter account: whose values are kept, apart from all others; nil (default) for the app's own.
    func keeper(namespace: String, account: String? = nil) -> ConfigKeeper {
        let scope = Scope(namespace: namespace, account: account)
        let (keeper, missed) = state.withLock { state -> (ConfigKeeper, [StaleNotice]) in
            if let keeper = state.keepers[scope]?.keeper { return (keeper, []) }
            state.keepers = state.keepers.filter { $0.value.keeper != nil }
            if account != nil {
                let file = Self.file(name, CacheDirectory.fileName(namespace) + "@", in: directory)
                CacheDirectory.keepNewest(Self.keptAccounts, beginningWith: file)
            }
            let keeper = ConfigKeeper(
                options: options, namespace: namespace, account: account,
                cache: Self.file(name, scope.fileName, in: directory), installation: installation,
                callbacks: callbacks, environment: environment)
            state.keepers[scope] = Kept(own: account == nil ? keeper : nil, keeper: keeper)
            return (keeper, Array(state.announced.values))
        }
        for notice in missed where keeper.isMeant(by: notice) { keeper.received(notice) }
        return keeper
    }

    /// Number of accounts whose caches are kept besides that of a new one: those used last.
    private static let keptAccounts = 15

    /// Number of scopes in memory.
    package var keptScopes: Int { keepers.count }

    var keepers: [ConfigKeeper] { state.withLock { $0.keepers.values.compactMap(\.keeper) } }

    // MARK: Real time

    /// Says which topics `owner` wants to hear of on behalf of `keeper`'s namespace; empty ends that.
    func listen(to topics: Set<String>, owner: UUID, namespace: String) {
        if state.withLock({ $0.isDeleted }) { return }
        realtime.want(topics, owner: owner, namespace: namespace, keepers: keepers) {
            [weak self] namespace, demand, event in
            self?.received(event, on: namespace, demand: demand)
        }
    }

    /// Whether a connection is about to say whether the server has a topic.
    func isConnecting(_ topic: String) -> Bool { realtime.isConnecting(topic) }

    /// An event of a connection whose place is not remembered; with it, tests play the server.
    package func received(_ event: ConnectionEvent) { received(event, on: nil, demand: Subscriptions.Demand()) }

    /// An event of a connection.
    ///
    /// - Parameters:
    ///   - namespace: the only one the event is about; nil for a connection that serves all.
    ///   - demand: what the connection was made for.
    private func received(_ event: ConnectionEvent, on namespace: String?, demand: Subscriptions.Demand) {
        defer { state.withLock { $0.messaging }?.heard(event, of: demand.topics) }
        let (keepers, messaging) = (self.keepers, state.withLock { $0.messaging })
        let concerned = keepers.filter { namespace == nil || $0.namespace == namespace }
        switch event {
        case .stale(let notice):
            if notice.isStale { state.withLock { $0.remember(notice) } }
            for keeper in concerned {
                if notice.isStale, keeper.isMeant(by: notice) { keeper.received(notice) }
                if demand.namespaces.contains(keeper.namespace) { keeper.passed(notice.cursor, of: demand.topics) }
            }
            messaging?.received(notice)
            realtime.holds(keepers)
        case .synced(let cursor):
            for keeper in concerned {
                if demand.namespaces.contains(keeper.namespace) { keeper.synced(cursor, of: demand.topics) }
                keeper.catchUp()
            }
        case .unknownTopics(let names): for name in names { callbacks.report(.unknownTopic(name)) }
        case .reset:
            state.withLock { $0.announced = [:] }
            for keeper in concerned { keeper.reset() }
        case .unavailable: for keeper in concerned { keeper.report(RemoteConfigUpdateError(.unavailable)) }
        case .invalidMessage: for keeper in concerned { keeper.report(RemoteConfigUpdateError(.messageInvalid)) }
        case .state(let state): received(state, concerned)
        }
    }

    /// Number of failures in a row after which listeners get one report: the retry budget of Firebase's SDKs. The
    /// connection goes on trying.
    private static let reportedFailures = 8

    private func received(_ state: ConnectionState, _ concerned: some Sequence<ConfigKeeper>) {
        switch state {
        case .waiting(Self.reportedFailures, _):
            for keeper in concerned { keeper.report(RemoteConfigUpdateError(.streamError)) }
        case .open(let transport) where transport == ConnectionMachine.Transport.firebase.rawValue:
            // Firebase's protocol does not say when all that was owed is delivered. A version that was reported before and
            // not fetched is not reported again.
            for keeper in concerned { keeper.catchUp() }
        default: break
        }
    }

    /// - Parameter part: a file's name already.
    private static func file(_ name: String, _ part: String, in directory: URL) -> URL {
        directory.appendingPathComponent("\(CacheDirectory.fileName(name))@\(part)")
    }
}

extension ConfigKeeper {
    /// Whether a message is about this keeper's scope. A project given by number is not told from others, because
    /// messages name projects by id.
    fileprivate func isMeant(by notice: StaleNotice) -> Bool {
        if let namespace = notice.namespace, namespace != self.namespace { return false }
        guard let project = notice.project, Int64(options.project) == nil else { return true }
        return project == options.project
    }
}

extension StaleNotice {
    /// Whether this says that a configuration is out of date; any other data message may come over a topic too.
    var isStale: Bool { data["CONFIG_STATE"] == "STALE" || (topic.isEmpty && version > 0) }
}
