public import Foundation
import StalecastWire

/// Receives messages of topics; set as ``PushMessaging/delegate``, and called on ``StalecastOptions/callbackQueue``
/// only. Each method may be left out.
public protocol PushMessagingDelegate: AnyObject {
    /// A message came over a topic.
    ///
    /// - Parameter userInfo: its members as texts. A STALE message has `userInfo["CONFIG_STATE"] == "STALE"`.
    func messaging(_ messaging: PushMessaging, didReceiveRemoteNotification userInfo: [String: String])

    /// Topics may be subscribed to: called once the delegate is set, as Firebase's is once its token is there.
    ///
    /// - Parameter fcmToken: ``PushMessaging/fcmToken``.
    func messaging(_ messaging: PushMessaging, didReceiveRegistrationToken fcmToken: String?)

    /// Receives the token, in the form that code for older versions of Firebase declares.
    func messaging(_ messaging: PushMessaging, didReceiveRegistrationToken fcmToken: String)
}

extension PushMessagingDelegate {
    /// Does nothing.
    public func messaging(_ messaging: PushMessaging, didReceiveRemoteNotification userInfo: [String: String]) {}

    /// Calls the method of the older declaration.
    public func messaging(_ messaging: PushMessaging, didReceiveRegistrationToken fcmToken: String?) {
        if let fcmToken { self.messaging(messaging, didReceiveRegistrationToken: fcmToken) as Void }
    }

    /// Does nothing.
    public func messaging(_ messaging: PushMessaging, didReceiveRegistrationToken fcmToken: String) {}
}

/// The name in Firebase's SDK.
public typealias Messaging = PushMessaging
/// The name in Firebase's SDK.
public typealias MessagingDelegate = PushMessagingDelegate

/// Messages of topics, with the API of Firebase's push messages as far as topics go: code for the recipe "propagate
/// Remote Config updates in real time" compiles with another import. Messages come while the app runs; an app that is
/// not running is reached by Google's and Apple's services only.
///
/// A STALE message sets ``isConfigStale`` durably, and the next ``RemoteConfig/fetch()`` asks the server whatever the
/// interval. With ``fetchesAutomatically`` on, the SDK fetches by itself and tells update listeners.
public final class PushMessaging: Sendable {
    private struct State: Sendable {
        var handlers: [UUID: @Sendable ([String: String]) -> Void] = [:]
        var delegate = WeakDelegate()
        /// Calls that wait to hear whether the server has a topic.
        var waiting: [(topic: String, completion: @Sendable ((any Error)?) -> Void)] = []
    }

    /// `@unchecked`: the delegate is called on one serial queue only.
    private struct WeakDelegate: @unchecked Sendable {
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
        set {
            let delegate = WeakDelegate(value: newValue)
            state.withLock { $0.delegate = delegate }
            app.callbacks.run { [self] in delegate.value?.messaging(self, didReceiveRegistrationToken: fcmToken) }
        }
    }

    /// Id of the installation, in place of Firebase's registration token. No message can be sent to it; topics are what
    /// reaches an app here.
    public var fcmToken: String? { app.appInstanceID }

    /// ``fcmToken``, as code for Firebase asks for it.
    public func token() async throws -> String { app.appInstanceID }

    /// ``token()`` with a completion handler.
    public func token(completion: @escaping @Sendable (String?, (any Error)?) -> Void) {
        app.callbacks.run { [app] in completion(app.appInstanceID, nil) }
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

    /// Subscribes to a topic; no effect when it is subscribed already. If the client's configuration is older than the
    /// topic's newest version, a message says so at once. Returns when the server has taken the subscription or could
    /// not be reached; in that case the subscription is kept, and made as soon as possible.
    ///
    /// - Throws: ``PushMessagingError`` for an invalid topic name, a server without topics, or a topic that the server
    ///   does not have. The last is kept as a subscription too, because the server may get the topic later.
    public func subscribe(toTopic topic: String) async throws {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            subscribe(topic) { error in
                if let error { done.resume(throwing: error) } else { done.resume() }
            }
        }
    }

    /// ``subscribe(toTopic:)`` with a completion handler.
    public func subscribe(toTopic topic: String, completion: (@Sendable ((any Error)?) -> Void)?) {
        subscribe(topic) { [app] error in app.callbacks.run { completion?(error) } }
    }

    /// - Parameter completion: called once, on no particular thread.
    private func subscribe(_ topic: String, _ completion: @escaping @Sendable ((any Error)?) -> Void) {
        // Ends with the write of the cache.
        let finish: @Sendable ((any Error)?) -> Void = { [app] error in
            Task {
                await app.installation.flush()
                completion(error)
            }
        }
        do {
            let topic = try PushMessagingError.checked(topic)
            let wasSubscribed = topics.contains(topic)
            state.withLock { $0.waiting.append((topic, finish)) }
            do { try add(topic) } catch {
                settle { $0 == topic ? .some(error) : nil }
                return
            }
            // A connection that has the topic already reports nothing new about it, so this call ends here.
            if wasSubscribed || !app.isConnecting(topic) { settle { $0 == topic ? .some(nil) : nil } }
        } catch { finish(error) }
    }

    /// Takes an event that a connection for these topics reported about them.
    func heard(_ event: ConnectionEvent, of topics: Set<String>) {
        switch event {
        case .unknownTopics(let names):
            settle { names.contains($0) ? .some(PushMessagingError.unknownTopic($0)) : nil }
        case .synced, .state(.waiting), .state(.ended), .state(.idle):
            settle { topics.contains($0) ? .some(nil) : nil }
        default: break
        }
    }

    /// The app is deleted: nothing more will be heard.
    func end() { settle { _ in .some(nil) } }

    /// Tells those who wait about the topics that `outcome` has something to say of.
    private func settle(_ outcome: (String) -> (any Error)??) {
        let told = state.withLock { state in
            let told = state.waiting.compactMap { waiting in outcome(waiting.topic).map { (waiting.completion, $0) } }
            state.waiting.removeAll { outcome($0.topic) != nil }
            return told
        }
        for (completion, error) in told { completion(error) }
    }

    /// Listens to a topic no more. No effect when it was not subscribed to.
    ///
    /// - Throws: ``PushMessagingError`` for a name that is no topic's.
    public func unsubscribe(fromTopic topic: String) async throws {
        try remove(topic)
        await app.installation.flush()
    }

    /// ``unsubscribe(fromTopic:)`` with a completion handler.
    public func unsubscribe(fromTopic topic: String, completion: (@Sendable ((any Error)?) -> Void)?) {
        let outcome = Result { try remove(topic) }
        // Ends with the write of the cache.
        Task {
            await app.installation.flush()
            app.callbacks.run(outcome, completion)
        }
    }

    /// Calls `handler` with the members of each message, on ``StalecastOptions/callbackQueue``.
    @discardableResult
    public func onMessage(_ handler: @escaping @Sendable ([String: String]) -> Void) -> ConfigUpdateListenerRegistration
    {
        let id = UUID()
        state.withLock { $0.handlers[id] = handler }
        return ConfigUpdateListenerRegistration { [weak self] in
            // The closure ends outside the lock: what it owns may call this object in its `deinit`.
            _ = self?.state.withLock { $0.handlers.removeValue(forKey: id) }
        }
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
        guard app.options.server == .stalecast else { throw PushMessagingError.noTopics }
        app.installation.change { $0.topics = Set($0.topics).union([topic]).sorted() }
        listen()
    }

    private func remove(_ topic: String) throws {
        let topic = try PushMessagingError.checked(topic)
        app.installation.change { $0.topics.removeAll { $0 == topic } }
        listen()
        settle { $0 == topic ? .some(nil) : nil }
    }

    private func listen() {
        app.listen(to: Set(topics), owner: owner, namespace: keeper.namespace)
    }
}

/// Error of subscribing to a topic or unsubscribing from it.
public enum PushMessagingError: Error, Sendable, Hashable, LocalizedError {
    /// The name breaks FCM's rule, `[a-zA-Z0-9-_.~%]{1,255}`.
    case invalidTopicName(String)
    /// The app is configured for Firebase itself, whose topics need Firebase's own SDK.
    case noTopics
    /// The server has no such topic. The subscription is kept and takes effect when the server gets the topic.
    case unknownTopic(String)

    /// A sentence for the developer.
    public var errorDescription: String? {
        switch self {
        case .invalidTopicName(let name):
            "\"\(name.prefix(80))\" is no topic: a name has 1 to 255 characters of A-Z a-z 0-9 - _ . ~ %"
        case .unknownTopic(let name):
            "the server has no topic \(name); add it to the server's topics, or unsubscribe from it"
        case .noTopics: "topics need a Stalecast server; with StalecastOptions.firebase use an update listener"
        }
    }

    /// The topic's name, without the prefix `/topics/` that Firebase tolerates.
    static func checked(_ topic: String) throws -> String {
        let name = topic.hasPrefix("/topics/") ? String(topic.dropFirst(8)) : topic
        guard (try? TopicName(name)) != nil else { throw Self.invalidTopicName(topic) }  // only whether it is a name
        return name
    }
}
