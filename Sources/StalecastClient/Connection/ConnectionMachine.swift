package import Foundation

/// State of one connection, and its next step: a pure value. Facts go in, actions come out in the order in which they
/// are to be done; time and chance come with the facts.
///
/// ```
/// idle ─start─▶ opening ─open─▶ open ─lost─▶ waiting ─timer─▶ opening …      ended: the server said 204
///                  └────────lost────────────────▲          background: as idle, until the foreground
/// ```
/// While long-poll is what works, a *probe* tries a stream beside it; one that delivers all it owes takes over.
package struct ConnectionMachine: Sendable {
    package enum Transport: String, Sendable {
        case events = "sse"
        case poll, firebase
    }

    /// Owner of an attempt and of a timer; each owner has at most one of either.
    package enum Role: Sendable { case main, probe }

    package enum Phase: Sendable, Equatable {
        case idle, background, ended
        /// Waiting for a timer, before the next attempt.
        case waiting
        case opening(Transport)
        case open(Transport)
    }

    package enum Action: Sendable, Equatable {
        /// Begin an exchange, now.
        case attempt(Transport, Role)
        /// Call ``timerFired(_:turn:random:)`` after so many seconds.
        case wait(TimeInterval, Role, turn: Int)
        /// End what runs for a role, without a report.
        case cancel(Role)
        /// The probe's exchange is the main one from now on.
        case adoptProbe
        case tell(ConnectionEvent)
        /// Find out which of the topics the server does not have, and call ``sorted(unknown:remaining:random:)``.
        case sortTopics
        /// Subscribe to all topics again.
        case takeAllTopics
    }

    private enum Probe: Sendable, Equatable {
        case none, waiting
        /// Trying, with the events of the stream so far, which are reported once it takes over.
        case trying([ConnectionEvent])
    }

    package private(set) var phase = Phase.idle
    private var isStarted = false
    private var isInBackground = false
    private var probe = Probe.none
    private var choice: TransportChoice
    private var schedule: ReconnectSchedule
    private let freshSchedule: ReconnectSchedule
    private let isFirebase: Bool
    /// Counts timers, so that one that was overtaken means nothing.
    private var turn = 0
    /// Seconds for which the server asked to be left alone once the stream ends.
    private var pause: TimeInterval?
    private var isSorting = false
    /// The newest version told of each scope and topic, so that none is told twice.
    private var reported = ConnectionMachine.ReportedVersions()
    private var told = ConnectionState.idle

    package init(_ options: ConnectionOptions) {
        if case .firebase = options.dialect { isFirebase = true } else { isFirebase = false }
        choice = TransportChoice(probeDelay: options.streamRetryInterval)
        freshSchedule = ReconnectSchedule(
            firstDelay: options.reconnectDelay, longestDelay: options.longestReconnectDelay)
        schedule = freshSchedule
    }

    // MARK: Orders

    package mutating func started(random: Double) -> [Action] {
        guard !isStarted else { return [] }
        isStarted = true
        guard !isInBackground else {
            phase = .background
            return []
        }
        return connect(random)
    }

    package mutating func stopped() -> [Action] {
        isStarted = false
        return leave(for: .idle)
    }

    package mutating func enteredBackground() -> [Action] {
        isInBackground = true
        return phase == .ended ? [] : leave(for: isStarted ? .background : .idle)
    }

    package mutating func enteredForeground(random: Double) -> [Action] {
        isInBackground = false
        return phase == .background ? connect(random) : []
    }

    package mutating func networkChanged(random: Double) -> [Action] {
        guard isLive else { return [] }
        choice.networkChanged()
        return endAll() + connect(random)
    }

    // MARK: Facts

    package mutating func timerFired(_ role: Role, turn: Int, random: Double) -> [Action] {
        guard turn == self.turn || role == .probe, isLive else { return [] }
        switch role {
        case .main: return attempt()
        case .probe:
            guard probe == .waiting else { return [] }
            probe = .trying([])
            return [.attempt(.events, .probe)]
        }
    }

    /// The server answers as it should.
    package mutating func opened(_ role: Role) -> [Action] {
        guard role == .main, case .opening(let transport) = phase else { return [] }
        phase = .open(transport)
        if transport == .poll { choice.pollAnswered() }
        return tell(.open(transport: transport.rawValue))
    }

    package mutating func said(_ event: ConnectionEvent, _ role: Role) -> [Action] {
        guard role == .probe else { return reported.isNews(event) ? [.tell(event)] : [] }
        guard case .trying(let held) = probe else { return [] }
        probe = .trying(held + [event])
        guard case .synced = event else { return [] }
        return adoptProbe(held + [event])
    }

    package mutating func serverAsked(retry: TimeInterval) { schedule.serverAsked(for: retry) }

    package mutating func serverAsked(pause: TimeInterval) {
        self.pause = min(pause, ReconnectSchedule.longestServerDelay)
    }

    /// A long-poll was answered, which is no failure. With `isNews` the next poll may begin at once.
    package mutating func answered(isNews: Bool, after seconds: TimeInterval, random: Double) -> [Action] {
        schedule = schedule.withoutFailures
        // An answer that came at once and said nothing would make us ask as fast as we can.
        return isNews || seconds >= 1 ? attempt() : [wait(1 + random)]
    }

    /// A stream or an attempt ended.
    package mutating func lost(_ loss: LinkLoss, _ role: Role, upFor: TimeInterval?, random: Double) -> [Action] {
        guard role == .main else { return probeFailed(random) }
        var delay = schedule.lost(loss, upFor: upFor, random: random)
        if let pause, loss.kind == .closed { delay = pause + random * schedule.firstDelay }
        phase = .waiting
        var actions = loss.kind == .closed ? [Action.takeAllTopics] : []
        if loss.kind == .refused(status: 404), !isFirebase, !isSorting {
            isSorting = true
            actions.append(.sortTopics)
        }
        // Which topics are to blame is told before the state, so that the owner does not take them for accepted.
        if !isSorting { actions += tell(.waiting(failures: schedule.failures, reason: loss.reason)) }
        actions += changeTransport(after: loss, upFor: upFor, random)
        return actions + [wait(delay)]
    }

    /// The server wants us never to come back.
    package mutating func dismissed(_ role: Role, random: Double) -> [Action] {
        if role == .probe { return probeFailed(random) }
        let actions = endAll()
        phase = .ended
        return actions + tell(.ended)
    }

    /// Notes which topics the server does not have, and how many are left.
    package mutating func sorted(unknown: [String], remaining: Int, random: Double) -> [Action] {
        isSorting = false
        guard isLive else { return [] }
        let news: [Action] = unknown.isEmpty ? [] : [.tell(.unknownTopics(unknown))]
        guard !unknown.isEmpty, remaining > 0 else {
            return news + tell(.waiting(failures: max(1, schedule.failures), reason: "the server answered HTTP 404"))
        }
        return news + endAll() + connect(random)
    }

    // MARK: Steps

    /// Whether there is something to be kept up.
    private var isLive: Bool {
        switch phase {
        case .idle, .background, .ended: false
        case .waiting, .opening, .open: true
        }
    }

    private var transport: Transport { isFirebase ? .firebase : choice.transport }

    private mutating func connect(_ random: Double) -> [Action] {
        (phase, schedule) = (.waiting, freshSchedule)
        return attempt() + (transport == .poll ? waitForProbe(random) : [])
    }

    private mutating func attempt() -> [Action] {
        pause = nil
        turn += 1
        let connecting = phase == .open(.poll) ? [] : tell(.connecting)
        // Long-polls follow each other: the state stays open between them.
        if phase != .open(.poll) { phase = .opening(transport) }
        return connecting + [.attempt(transport, .main)]
    }

    private mutating func wait(_ delay: TimeInterval) -> Action {
        turn += 1
        return .wait(delay, .main, turn: turn)
    }

    private mutating func changeTransport(after loss: LinkLoss, upFor: TimeInterval?, _ random: Double) -> [Action] {
        switch transport {
        case .firebase: return []
        case .events: return choice.eventsLost(loss.kind, upFor: upFor) ? waitForProbe(random) : []
        case .poll: return choice.pollLost() ? endProbe() : []
        }
    }

    private mutating func leave(for phase: Phase) -> [Action] {
        let wasEnded = self.phase == .ended
        let actions = endAll()
        self.phase = phase
        return actions + (wasEnded ? [] : tell(.idle))
    }

    private mutating func endAll() -> [Action] {
        turn += 1
        return [.cancel(.main)] + endProbe()
    }

    private mutating func tell(_ state: ConnectionState) -> [Action] {
        guard state != told else { return [] }
        told = state
        return [.tell(.state(state))]
    }

    // MARK: A stream beside the long-poll

    private mutating func waitForProbe(_ random: Double) -> [Action] {
        probe = .waiting
        return [.wait(choice.probeDelay * (0.8 + 0.4 * random), .probe, turn: 0)]
    }

    private mutating func probeFailed(_ random: Double) -> [Action] {
        guard case .trying = probe else { return [] }
        choice.probeFailed()
        return [.cancel(.probe)] + waitForProbe(random)
    }

    /// The stream takes over; what it said so far is not lost, and not told twice.
    private mutating func adoptProbe(_ held: [ConnectionEvent]) -> [Action] {
        choice.probeSucceeded()
        probe = .none
        turn += 1
        phase = .open(.events)
        var actions = [Action.cancel(.main), .adoptProbe] + tell(.open(transport: Transport.events.rawValue))
        for event in held { actions += said(event, .main) }
        return actions
    }

    private mutating func endProbe() -> [Action] {
        defer { probe = .none }
        return probe == .none ? [] : [.cancel(.probe)]
    }
}

extension ConnectionMachine {
    /// The newest version that was reported of each scope over each topic. Within one store they only grow, so that
    /// what is not newer was reported before: over a connection that broke, or over the other transport.
    struct ReportedVersions: Sendable {
        private struct Subject: Hashable {
            let topic: String
            let project: String?
            let namespace: String?
        }

        private var versions: [Subject: Int64] = [:]

        /// Whether the owner has not heard this yet; remembers it.
        mutating func isNews(_ event: ConnectionEvent) -> Bool {
            switch event {
            case .reset:
                versions = [:]
                return true
            case .stale(let notice) where notice.version > 0:
                let subject = Subject(topic: notice.topic, project: notice.project, namespace: notice.namespace)
                guard notice.version > versions[subject] ?? 0 else { return false }
                versions[subject] = notice.version
                return true
            default: return true
            }
        }
    }
}
