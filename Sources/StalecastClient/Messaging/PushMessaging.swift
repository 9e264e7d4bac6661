import Foundation

/// Receives messages of topics; set as ``PushMessaging/delegate``.
public protocol PushMessagingDelegate: AnyObject, Sendable {
    /// A message came over a topic.
    ///
    /// - Parameter userInfo: its members as texts. A STALE message has `userInfo["CONFIG_STATE"] == "STALE"`.
    func messaging(_ messaging: PushMessaging, didReceiveRemoteNotification userInfo: [String: String])
}

/// Messages of topics, with the API of Firebase's push messages: the recipe "propagate Remote Config updates in real
/// time" works with its lines unchanged.
///
/// A STALE message sets ``isConfigStale`` durably, and the next ``RemoteConfig/fetch()`` asks the server whatever the
/// interval. With ``fetchesAutomatically`` on, the SDK fetches by itself and tells update listeners.
public final class PushMessaging: Sendable {
    private struct State: Sendable {
        var handlers: [UUID: @Sendable ([String: String]) -> Void] = [:]
        var delegate = WeakDelegate()
    }

    private struct WeakDelegate: Sendable {
        weak var value: (any PushMessagingDelegate)?
    }

    private let app: StalecastApp
    private let state = Locked(State())
    private let owner = UUID()

    init(app: StalecastApp) { self.app = app }

    /// The messaging of the default app; always the same object. Topics subscribed to before, in this process or an
    /// earlier one, are listened to from the first call on.
    ///
    /// - Precondition: ``Stalecast/configure(options:)`` was called.
    public static func messaging() -> PushMessaging { messaging(app: Stalecast.requiredApp()) }

    /// The messaging of an app.
    public static func messaging(app: StalecastApp) -> PushMessaging {
        let messaging = app.messaging()
        messaging.listen()
        return messaging
    }

    /// Receives messages on ``StalecastOptions/callbackQueue``; held weakly. Default nil.
    public weak var delegate: (any PushMessagingDelegate)? {
        get { state.withLock { $0.delegate.value } }
        set { state.withLock { $0.delegate.value = newValue } }
    }

    /// The topics subscribed to, in alphabetical order; they survive the process.
    public var topics: [String] { app.installation.current.topics }

    /// Whether a message said that the default namespace's configuration is out of date and no fetch has answered it
    /// yet; survives the process.
    public var isConfigStale: Bool { keeper.state.withLock { $0.stored.isStale } }

    /// Whether a STALE message makes the SDK fetch by itself: after a random time within the message's herd window, or
    /// at once when it is urgent, in at most three attempts. Update listeners are told. Default false: the message only
    /// sets ``isConfigStale``. An update listener has the same effect for as long as it is there.
    public var fetchesAutomatically: Bool {
        get { keeper.state.withLock { $0.fetchesAutomatically } }
        set {
            keeper.state.withLock { $0.fetchesAutomatically = newValue }
            if newValue { keeper.catchUp() }
        }
    }

    /// Listens to a topic from now on. Again: no effect. A client whose configuration is older than the topic's newest
    /// version hears of that at once.
    ///
    /// - Throws: ``PushMessagingError`` for a name that is no topic's, or a server without topics.
    public func subscribe(toTopic topic: String) async throws {
        try add(topic)
        await app.installation.flush()
    }

    /// ``subscribe(toTopic:)`` with a completion handler.
    public func subscribe(toTopic topic: String, completion: (@Sendable ((any Error)?) -> Void)? = nil) {
        report(Result { try add(topic) }, to: completion)
    }

    /// Listens to a topic no more. No effect when it was not subscribed to.
    ///
    /// - Throws: ``PushMessagingError`` for a name that is no topic's.
    public func unsubscribe(fromTopic topic: String) async throws {
        try remove(topic)
        await app.installation.flush()
    }

    /// ``unsubscribe(fromTopic:)`` with a completion handler.
    public func unsubscribe(fromTopic topic: String, completion: (@Sendable ((any Error)?) -> Void)? = nil) {
        report(Result { try remove(topic) }, to: completion)
    }

    /// Calls `handler` with the members of each message, on ``StalecastOptions/callbackQueue``.
    @discardableResult
    public func onMessage(_ handler: @escaping @Sendable ([String: String]) -> Void) -> ConfigUpdateListenerRegistration
    {
        let id = UUID()
        state.withLock { $0.handlers[id] = handler }
        return ConfigUpdateListenerRegistration { [weak self] in self?.state.withLock { $0.handlers[id] = nil } }
    }

    func received(_ notice: StaleNotice) {
        let (handlers, delegate) = state.withLock { (Array($0.handlers.values), $0.delegate) }
        if handlers.isEmpty && delegate.value == nil { return }
        app.callbacks.run { [self] in
            delegate.value?.messaging(self, didReceiveRemoteNotification: notice.data)
            for handler in handlers { handler(notice.data) }
        }
    }

    private var keeper: ConfigKeeper { app.keeper(namespace: app.options.namespace) }

    private func add(_ topic: String) throws {
        let topic = try PushMessagingError.checked(topic)
        guard app.options.server == .stalecast else { throw PushMessagingError.noTopics }
        app.installation.change { $0.topics = Set($0.topics).union([topic]).sorted() }
        listen()
    }

    private func remove(_ topic: String) throws {
        let topic = try PushMessagingError.checked(topic)
        app.installation.change { $0.topics.removeAll { $0 == topic } }
        listen()
    }

    private func listen() {
        app.listen(to: Set(topics), owner: owner, namespace: keeper.namespace)
    }

    private func report(_ outcome: Result<Void, any Error>, to completion: (@Sendable ((any Error)?) -> Void)?) {
        // Ends with the write of the cache.
        Task {
            await app.installation.flush()
            app.callbacks.run {
                switch outcome {
                case .success: completion?(nil)
                case .failure(let error): completion?(error)
                }
            }
        }
    }
}
