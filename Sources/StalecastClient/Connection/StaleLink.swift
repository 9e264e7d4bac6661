import Foundation
import StalecastWire

/// Where a connection leads, and how.
struct LinkTarget: Sendable {
    var endpoint: URL
    var topics: [String]
    var options: ConnectionOptions
}

/// What is behind a ``StaleConnection``: the transport in use, the place to resume from, and the orders it got.
///
/// `@unchecked`: touched on the loop's thread only.
final class StaleLink: @unchecked Sendable {
    typealias Events = LinkSupervisor<EventStreamDialect>

    private enum Carrier {
        case none
        case events(Events)
        case poll(LinkSupervisor<PollDialect>)
        case firebase(LinkSupervisor<FirebaseDialect>)
    }

    /// Firebase's SDK for iOS waits so long, in seconds.
    private static let firebaseSilence: TimeInterval = 330

    let target: LinkTarget
    let loop: LinkLoop
    private let random: @Sendable () -> Double
    private let outlet: EventOutlet

    private var isStarted = false
    private var isInBackground = false
    private var isEnded = false
    private var carrier = Carrier.none
    private var choice: TransportChoice
    private var probe: StreamProbe?
    private var probeTimer: Int?
    private var state = ConnectionState.idle
    private var cursor: String?
    private var have: Int64?
    /// The newest version reported of each scope and topic, so that none is reported twice.
    private var reported = ReportedVersions()

    init(
        _ target: LinkTarget, have: Int64?, cursor: String?, loop: LinkLoop, random: @escaping @Sendable () -> Double,
        outlet: EventOutlet
    ) {
        self.target = target
        self.have = have
        self.cursor = cursor
        self.loop = loop
        self.random = random
        self.outlet = outlet
        choice = TransportChoice(probeDelay: target.options.streamRetryInterval)
    }

    // MARK: Orders

    func start() {
        guard !isStarted else { return }
        (isStarted, isEnded) = (true, false)
        if !isInBackground { connect() }
    }

    func stop() {
        isStarted = false
        disconnect()
    }

    func holds(_ version: Int64) {
        have = version
        switch carrier {
        case .events(let events): events.dialect.base = target.request("v1/events", have: version)
        case .poll(let poll): poll.dialect.base = target.request("v1/poll", have: version)
        case .firebase(let firebase): firebase.dialect.version = max(version, firebase.dialect.version)
        case .none: break
        }
    }

    func networkChanged() {
        guard isStarted, !isInBackground, !isEnded else { return }
        choice.networkChanged()
        endCarrier()
        connect()
    }

    func enterBackground() {
        isInBackground = true
        disconnect()
    }

    func enterForeground() {
        isInBackground = false
        if isStarted, !isEnded, case .none = carrier { connect() }
    }

    // MARK: Carriers

    private func connect(_ schedule: ReconnectSchedule? = nil, after delay: TimeInterval = 0) {
        let options = target.options
        let schedule =
            schedule
            ?? ReconnectSchedule(firstDelay: options.reconnectDelay, longestDelay: options.longestReconnectDelay)
        if case .firebase(let stream) = options.dialect {
            carrier = .firebase(firebase(stream, schedule, after: delay))
        } else if choice.transport == .events {
            let events = events(schedule) { [weak self] in self?.received($0) }
            carrier = .events(events)
            events.start(after: delay)
        } else {
            carrier = .poll(poll(schedule, after: delay))
            startProbeTimer()
        }
        if outlet.isFull { setReading(false) }
    }

    private func disconnect() {
        endCarrier()
        if !isEnded { change(to: .idle) }
    }

    private func endCarrier() {
        switch carrier {
        case .events(let events): events.stop()
        case .poll(let poll): poll.stop()
        case .firebase(let firebase): firebase.stop()
        case .none: break
        }
        carrier = .none
        endProbe()
    }

    private func events(_ schedule: ReconnectSchedule, _ onReport: @escaping @Sendable (Events.Report) -> Void)
        -> Events
    {
        let limits = LinkLimits(opening: target.options.openingLimit, silence: target.options.heartbeatLimit)
        let dialect = EventStreamDialect(target.request("v1/events", have: have), lastEventID: cursor)
        return Events(dialect, schedule: schedule, limits: limits, loop: loop, random: random, onReport: onReport)
    }

    private func poll(_ schedule: ReconnectSchedule, after delay: TimeInterval) -> LinkSupervisor<PollDialect> {
        let options = target.options
        let limits = LinkLimits(opening: options.openingLimit, silence: options.openingLimit)
        let dialect = PollDialect(
            target.request("v1/poll", have: have), cursor: cursor, topic: target.topics.first ?? "",
            wait: options.pollWait)
        let poll = LinkSupervisor(dialect, schedule: schedule, limits: limits, loop: loop, random: random) {
            [weak self] in self?.received($0)
        }
        poll.start(after: delay)
        return poll
    }

    private func firebase(
        _ stream: FirebaseStreamRequest, _ schedule: ReconnectSchedule, after delay: TimeInterval
    ) -> LinkSupervisor<FirebaseDialect> {
        let options = target.options
        let silence = max(options.heartbeatLimit, Self.firebaseSilence)
        let dialect = FirebaseDialect(
            endpoint: target.endpoint, stream, options: options, version: have ?? 0)
        let firebase = LinkSupervisor(
            dialect, schedule: schedule, limits: LinkLimits(opening: options.openingLimit, silence: silence),
            loop: loop, random: random
        ) { [weak self] in self?.received($0) }
        firebase.start(after: delay)
        return firebase
    }

    // MARK: Reports

    private func received(_ report: Events.Report) {
        switch report {
        case .connecting: change(to: .connecting)
        case .open: change(to: .open(transport: "sse"))
        case .output(.event(let event)):
            if let event = target.connectionEvent(event) { self.report(event) }
            if case .events(let events) = carrier, !events.dialect.lastEventID.isEmpty {
                cursor = events.dialect.lastEventID
            }
        case .output(.comment): break
        case .lost(let loss, let upFor, let failures, let delay):
            guard case .events(let events) = carrier else { return }
            change(to: .waiting(failures: failures, reason: loss.reason))
            if choice.eventsLost(loss.kind, upFor: upFor) { replaceCarrier(events.schedule, after: delay) }
        case .dismissed: ended()
        }
    }

    private func received(_ report: LinkSupervisor<PollDialect>.Report) {
        switch report {
        case .connecting: if case .open = state {} else { change(to: .connecting) }
        case .open:
            choice.pollAnswered()
            change(to: .open(transport: "poll"))
        case .output(let event):
            self.report(event)
            if case .poll(let poll) = carrier { cursor = poll.dialect.cursor }
        case .lost(let loss, _, let failures, let delay):
            guard case .poll(let poll) = carrier else { return }
            change(to: .waiting(failures: failures, reason: loss.reason))
            if choice.pollLost() { replaceCarrier(poll.schedule, after: delay) }
        case .dismissed: ended()
        }
    }

    private func received(_ report: LinkSupervisor<FirebaseDialect>.Report) {
        switch report {
        case .connecting: change(to: .connecting)
        case .open: change(to: .open(transport: "firebase"))
        case .output(let event): self.report(event)
        case .lost(let loss, _, let failures, _): change(to: .waiting(failures: failures, reason: loss.reason))
        case .dismissed: ended()
        }
    }

    /// The other transport takes over, with the patience the former one had learnt.
    private func replaceCarrier(_ schedule: ReconnectSchedule, after delay: TimeInterval) {
        endCarrier()
        connect(schedule, after: delay)
    }

    private func ended() {
        endCarrier()
        isEnded = true
        change(to: .ended)
    }

    private func change(to state: ConnectionState) {
        guard state != self.state else { return }
        self.state = state
        deliver(.state(state))
    }

    private func report(_ event: ConnectionEvent) {
        if reported.isNews(event) { deliver(event) }
    }

    private func deliver(_ event: ConnectionEvent) {
        let isFull = outlet.deliver(event) { [weak self, loop] in loop.perform { [weak self] in self?.setReading(true) }
        }
        if isFull { setReading(false) }
    }

    /// An owner that cannot keep up makes us read less; the server then leaves out what is overtaken.
    private func setReading(_ isReading: Bool) {
        switch carrier {
        case .events(let events): isReading ? events.resumeReading() : events.pauseReading()
        case .poll(let poll): isReading ? poll.resumeReading() : poll.pauseReading()
        case .firebase(let firebase): isReading ? firebase.resumeReading() : firebase.pauseReading()
        case .none: break
        }
    }

    // MARK: Trying a stream beside the long-poll

    private func startProbeTimer() {
        let delay = choice.probeDelay * (0.8 + 0.4 * random())
        probeTimer = loop.after(delay) { [weak self] in self?.startProbe() }
    }

    private func startProbe() {
        guard case .poll(let poll) = carrier else { return }
        let probe = StreamProbe { [weak self] passed in
            if passed { self?.adoptProbe() } else { self?.probeFailed() }
        }
        let events = events(poll.schedule) { [weak self, weak probe] report in
            if let probe, probe.isTrying { probe.received(report) } else { self?.received(report) }
        }
        self.probe = probe
        probe.start(events)
    }

    private func probeFailed() {
        endProbe()
        choice.probeFailed()
        startProbeTimer()
    }

    /// The stream takes over; what it said so far is not lost, and not reported twice.
    private func adoptProbe() {
        guard case .poll(let poll) = carrier, let probe, let events = probe.events else { return }
        poll.stop()
        choice.probeSucceeded()
        carrier = .events(events)
        self.probe = nil
        change(to: .open(transport: "sse"))
        for event in probe.held { received(.output(.event(event))) }
    }

    private func endProbe() {
        loop.cancelTimer(probeTimer)
        probeTimer = nil
        probe?.events?.stop()
        probe = nil
    }
}
