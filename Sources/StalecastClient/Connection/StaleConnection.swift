public import Foundation

/// One subscription to a server that is kept up for as long as it is started: reconnects, resumes, and falls back.
///
/// Over Stalecast's own protocol it is a stream of server-sent events. When nothing of that stream arrives, because
/// something on the way holds answers back, or when another server answers, as a captive portal does, it changes to
/// long-poll and tries the stream again from time to time. It never gives up for good, unless the server says so (204).
public final class StaleConnection: Sendable {
    private let loop: LinkLoop
    private let link: StaleLink
    private let outlet: EventOutlet

    /// - Parameters:
    ///   - endpoint: the server's base URL, for example `http://127.0.0.1:8080`.
    ///   - topics: the topics subscribed to, at least one.
    ///   - project: id or number; nil (default) hears every project's messages, or those of the server's only one.
    ///   - namespace: nil (default) hears those of all the project's namespaces.
    ///   - have: the version held of the topics' scope; nil when none is.
    ///   - cursor: where a former connection ended; nil for none.
    ///   - onEvent: called one event at a time, on no particular thread.
    public convenience init(
        endpoint: URL, topics: [String], project: String? = nil, namespace: String? = nil, have: Int64? = nil,
        cursor: String? = nil,
        options: ConnectionOptions = ConnectionOptions(), onEvent: @escaping @Sendable (ConnectionEvent) -> Void
    ) {
        self.init(
            target: StaleLink.Target(
                endpoint: endpoint, topics: topics, project: project, namespace: namespace, options: options),
            have: have, cursor: cursor, onEvent: onEvent)
    }

    init(
        target: StaleLink.Target, have: Int64?, cursor: String?,
        onEvent: @escaping @Sendable (ConnectionEvent) -> Void
    ) {
        loop = .shared
        outlet = EventOutlet(onEvent)
        link = StaleLink(target, have: have, cursor: cursor, loop: loop, outlet: outlet)
    }

    deinit {
        let link = link
        outlet.close()
        loop.perform { link.stop() }
    }

    /// Connects and stays connected until ``stop()``.
    public func start() {
        outlet.open()
        loop.perform { [link] in link.start() }
    }

    /// Ends the connection; no event is reported after it returns, but one may be under way.
    public func stop() {
        outlet.close()
        loop.perform { [link] in link.stop() }
    }

    /// The version that is held now: sent with the next reconnect.
    public func holds(version: Int64) { loop.perform { [link] in link.holds(version) } }

    /// The network changed: reconnect at once instead of waiting out a backoff, or for a connection that is dead.
    public func networkChanged() { loop.perform { [link] in link.networkChanged() } }

    /// The app is suspended: close, and stay closed until ``enterForeground()``.
    public func enterBackground() { loop.perform { [link] in link.enterBackground() } }

    /// The app is back: connect, if started, and resume where the connection was closed.
    public func enterForeground() { loop.perform { [link] in link.enterForeground() } }
}
