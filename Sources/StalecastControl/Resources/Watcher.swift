import StalecastAccess
import StalecastHTTP
import StalecastWire

extension Call {
    /// Answers with server-sent events of what `look` sees of a scope.
    ///
    /// - Parameter look: takes how long the caller has watched.
    func watched(_ scope: Scope, _ observe: @escaping @Sendable (Duration) async -> Watcher.Sight) -> Answer {
        let watcher = Watcher(
            control: control, principal: principal, cookie: browser.cookie, credentials: Credentials(head), scope: scope
        )
        var answer = Answer(contentType: "text/event-stream", body: [])
        answer.events = EventFeed { await watcher.run($0, observe) }
        return answer
    }
}

/// One open stream of events at Control, for as long as its caller may read the scope.
struct Watcher: Sendable {
    /// Result of one look.
    enum Sight: Sendable {
        /// An event, sent unless its key is that of the event before.
        case news([UInt8], key: JSONValue)
        /// The last event.
        case end([UInt8])
    }

    let control: Control
    let principal: Principal?
    /// Cookie of the console's session that opened it; nil for a caller with its own credential.
    let cookie: String?
    /// Else this.
    let credentials: Credentials
    let scope: Scope

    /// Least time between two events: at most four a second.
    private static let pause: Duration = .milliseconds(250)
    private static let heartbeat: Duration = .seconds(15)
    /// Time without reading after which a client is disconnected.
    private static let patience: Duration = .seconds(30)

    func run(_ send: EventFeed.Send, _ observe: @Sendable (Duration) async -> Sight) async {
        let start = ContinuousClock.now
        var (said, saidAt, takenAt) = (JSONValue.null, start - Self.heartbeat, start)
        while !Task.isCancelled, isPermitted {
            let sight = await observe(ContinuousClock.now - start)
            let now = ContinuousClock.now
            var isTaken: Bool?
            switch sight {
            case .end(let event):
                isTaken = await send(event)
                if isTaken == true { return }
            case .news(let event, let key) where key != said:
                isTaken = await send(event)
                if isTaken == true { (said, saidAt) = (key, now) }
            case .news where now - saidAt >= Self.heartbeat:
                isTaken = await send(SSEEncoder.comment("hb"))
                if isTaken == true { saidAt = now }
            case .news: break
            }
            // A client to which nothing was sent is not late.
            if isTaken != false { takenAt = now }
            if now - takenAt > Self.patience { return }
            // Cancelled is the end, and the loop's condition sees it.
            try? await Task.sleep(for: Self.pause)
        }
    }

    /// A key may be revoked while it watches, and a token or a session come to its end.
    private var isPermitted: Bool {
        guard let credentials = cookie.map({ control.sessions.held($0) }) ?? credentials else { return false }
        guard let principal, [.key, .token, .certificate].contains(principal.kind) else {
            // The control token has no number to ask for.
            do { return try control.access.admit(credentials, at: .control).may(.read, in: scope) } catch {
                return false
            }
        }
        return control.access.currentPrincipal(of: principal.number)?.may(.read, in: scope) ?? false
    }
}
