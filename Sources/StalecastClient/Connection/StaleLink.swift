import Foundation
import StalecastWire

/// The hands of a ``ConnectionMachine``: its attempts, its timers, and the place to resume from.
///
/// `@unchecked`: touched on the loop's thread only.
final class StaleLink: @unchecked Sendable {
    typealias Action = ConnectionMachine.Action
    typealias Role = ConnectionMachine.Role

    /// Firebase's SDK for iOS waits so long, in seconds.
    private static let firebaseSilence: TimeInterval = 330

    private let loop: LinkLoop
    private let outlet: EventOutlet
    private let wholeTarget: Target
    /// Target without the topics that the server does not have.
    private var target: Target
    private var machine: ConnectionMachine
    private var attempts: [Role: any RunningAttempt] = [:]
    private var timers: [Role: Int] = [:]
    /// Cursors from which each of them is to be resumed.
    private var cursors: [Role: String] = [:]
    private var have: Int64?
    /// The owner is being asked for a token.
    private var isAskingForToken = false
    /// The turns of timers that fired meanwhile: their attempts wait for the answer.
    private var held: [Role: Int] = [:]
    /// Started once there was a token to show.
    private var isWanted = false
    /// State that the last long-poll left; nil after a failure.
    private var poll: PollDialect?

    init(_ target: Target, have: Int64?, cursor: String?, loop: LinkLoop, outlet: EventOutlet) {
        (self.target, wholeTarget) = (target, target)
        self.have = have
        cursors[.main] = cursor
        (self.loop, self.outlet) = (loop, outlet)
        machine = ConnectionMachine(target.options)
    }

    /// Chance for the machine's delays.
    private func random() -> Double { Double.random(in: 0..<1) }

    // MARK: Orders

    func start() {
        isWanted = true
        let hasToken = target.options.tokenProvider == nil || target.options.headers.hasAuthorization
        hasToken ? perform(machine.started(random: random())) : askForToken()
    }

    func stop() {
        isWanted = false
        perform(machine.stopped())
    }

    /// One question at a time.
    private func askForToken() {
        guard let provider = target.options.tokenProvider, !isAskingForToken else { return }
        isAskingForToken = true
        // Ends with the owner's answer.
        Task { [weak self, loop] in
            // The app knows why it has no token; the server answers 401 again.
            let token = try? await provider()
            loop.perform { [weak self] in self?.take(token) }
        }
    }

    private func take(_ token: String?) {
        isAskingForToken = false
        if let token {
            target.options.headers.setAuthorization("Bearer \(token)")
            poll?.base = target.request("v1/poll", have: have)
        }
        if isWanted { perform(machine.started(random: random())) }
        for (role, turn) in held { fire(role, turn) }
    }

    func networkChanged() { perform(machine.networkChanged(random: random())) }

    func enterBackground() { perform(machine.enteredBackground()) }

    func enterForeground() { perform(machine.enteredForeground(random: random())) }

    func holds(_ version: Int64) {
        // A long-poll that is under way keeps the former version; the next one names this.
        have = version
        poll?.base = target.request("v1/poll", have: version)
        if let attempt = attempts[.main] as? LinkAttempt<FirebaseDialect> {
            attempt.dialect.version = max(version, attempt.dialect.version)
        }
    }

    // MARK: Actions

    private func perform(_ actions: [Action]) {
        for action in actions {
            switch action {
            case .attempt(let transport, let role): begin(transport, role)
            case .wait(let seconds, let role, let turn): wait(seconds, role, turn)
            case .cancel(let role): cancel(role)
            case .adoptProbe:
                attempts[.main] = attempts.removeValue(forKey: .probe)
                cursors[.main] = cursors.removeValue(forKey: .probe) ?? cursors[.main]
            case .tell(let event): deliver(event)
            case .sortTopics: sortTopics()
            case .takeAllTopics: target.topics = wholeTarget.topics
            }
        }
    }

    private func wait(_ seconds: TimeInterval, _ role: Role, _ turn: Int) {
        held[role] = nil
        loop.cancelTimer(timers[role])
        timers[role] = loop.after(seconds) { [weak self] in
            guard let self else { return }
            // The token there is was refused or will be: the new one is waited for, but not for ever.
            guard isAskingForToken else { return fire(role, turn) }
            held[role] = turn
            timers[role] = loop.after(target.options.openingLimit) { [weak self] in self?.fire(role, turn) }
        }
    }

    private func fire(_ role: Role, _ turn: Int) {
        held[role] = nil
        loop.cancelTimer(timers.removeValue(forKey: role))
        perform(machine.timerFired(role, turn: turn, random: random()))
    }

    private func cancel(_ role: Role) {
        held[role] = nil
        loop.cancelTimer(timers.removeValue(forKey: role))
        attempts.removeValue(forKey: role)?.cancel()
        if role == .main { poll = nil }
    }

    private func begin(_ transport: ConnectionMachine.Transport, _ role: Role) {
        let options = target.options
        let understood: @Sendable (EventStreamDialect.Output) -> (ConnectionEvent?, String?) = {
            [weak self, target] output in
            guard case .event(let event) = output else { return (nil, nil) }
            if event.type == "auth", event.data.contains("expiring") { self?.askForToken() }
            return (target.connectionEvent(event), event.lastEventID)
        }
        switch transport {
        case .events:
            let dialect = EventStreamDialect(target.request("v1/events", have: have), lastEventID: cursors[.main])
            run(dialect, role, silence: options.heartbeatLimit, understood)
        case .poll:
            let dialect =
                poll
                ?? PollDialect(target.request("v1/poll", have: have), cursor: cursors[.main], wait: options.pollWait)
            run(dialect, role, silence: options.openingLimit, understood)
        case .firebase:
            guard case .firebase(let stream) = options.dialect else { return }
            let dialect = FirebaseDialect(
                endpoint: target.endpoint, stream, options: options, version: have ?? 0)
            run(dialect, role, silence: max(options.heartbeatLimit, Self.firebaseSilence)) { ($0, nil) }
        }
    }

    /// - Parameter read: what the dialect's output means, and where to resume after it; empty and nil for as before.
    private func run<Dialect: LinkDialect>(
        _ dialect: Dialect, _ role: Role, silence: TimeInterval,
        _ read: @escaping @Sendable (Dialect.Output) -> (ConnectionEvent?, cursor: String?)
    ) {
        let limits = LinkLimits(opening: target.options.openingLimit, silence: silence)
        let attempt = LinkAttempt(dialect, limits: limits, loop: loop) { [weak self] attempt, report in
            guard let self else { return }
            // A probe that took over reports as the main one.
            let role: Role = attempts[.probe] === attempt ? .probe : .main
            switch report {
            case .step(.output(let output)):
                let (event, cursor) = read(output)
                if let cursor, !cursor.isEmpty { cursors[role] = cursor }
                if let event { perform(machine.said(event, role)) }
            case .step(.retry(let delay)): machine.serverAsked(retry: delay)
            case .step(.pause(let delay)): machine.serverAsked(pause: delay)
            case .open: perform(machine.opened(role))
            case .answered, .lost, .dismissed: ended(report, attempt.dialect, role)
            }
        }
        attempts[role] = attempt
        if outlet.isFull { attempt.pauseReading() }
        attempt.start()
    }

    private func ended<Dialect>(_ report: LinkAttempt<Dialect>.Report, _ dialect: Dialect, _ role: Role) {
        attempts[role] = nil
        switch report {
        case .step, .open: break
        case .answered(let isNews, let seconds):
            poll = dialect as? PollDialect
            perform(machine.answered(isNews: isNews, after: seconds, random: random()))
        case .lost(let loss, let upFor):
            if loss.kind == .refused(status: 401) { askForToken() }
            if role == .main { poll = nil }
            perform(machine.lost(loss, role, upFor: upFor, random: random()))
        case .dismissed: perform(machine.dismissed(role, random: random()))
        }
    }

    // MARK: The owner

    private func deliver(_ event: ConnectionEvent) {
        let isFull = outlet.deliver(event) { [weak self, loop] in loop.perform { [weak self] in self?.setReading(true) }
        }
        if isFull { setReading(false) }
    }

    /// An owner that cannot keep up makes us read less; the server then leaves out what is overtaken.
    private func setReading(_ isReading: Bool) {
        for attempt in attempts.values { isReading ? attempt.resumeReading() : attempt.pauseReading() }
    }

    /// Asks the daemon about each topic after a 404, and subscribes to those that it has. A daemon answers 404 when it has
    /// none of the topics; an older one does when it lacks a single topic.
    private func sortTopics() {
        // Ends with the requests' timeouts.
        Task { [weak self, loop, target] in
            let unknown = await target.unknownTopics()
            loop.perform { [weak self] in
                guard let self else { return }
                let known = self.target.topics.filter { !unknown.contains($0) }
                if !known.isEmpty { self.target.topics = known }
                perform(machine.sorted(unknown: unknown, remaining: known.count, random: random()))
            }
        }
    }

    /// Target of a connection, and the way to it.
    struct Target: Sendable {
        var endpoint: URL
        var topics: [String]
        /// The scope whose messages are heard; nil for all.
        var project: String?
        var namespace: String?
        var options: ConnectionOptions
        /// The version that the app runs, for the server's rollout status; nil when it runs none or does not report it.
        var active: @Sendable () -> Int64? = { nil }
    }
}
