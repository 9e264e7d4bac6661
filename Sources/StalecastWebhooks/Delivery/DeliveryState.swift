import DequeModule
import HeapModule
package import Logging
package import StalecastHub
package import StalecastWire

/// Decides what is sent when: takes facts, and tells in ``takeActions()`` what is to be done. It knows no socket, no
/// database and no clock, and belongs to one thread.
///  After every fact that touches a webhook it is looked at anew (``touch(_:at:)``): what is next follows from its
/// lanes, so that nothing that is owed can be left lying.
package struct DeliveryState {
    package enum Action: Sendable {
        /// Make the request and send it; ends with ``finished(_:_:status:named:at:)``.
        case start(Attempt)
        /// End the request; its outcome is awaited as any other.
        case cancel(UInt64)
        /// Read the scope's stored changes after a sequence; ends with ``read(_:oldest:_:at:)``.
        case read(UInt64, Scope, after: CommitSequence)
        case journal(JournalEntry)
        case log(Logger.Level, Logger.Message, Logger.Metadata)
        /// Report that a webhook was disabled because of its receiver's answers, or for want of them.
        case disabled(Webhook, reason: String)
    }

    /// An attempt under way. A class: it is large, and passed on several times.
    package final class Attempt: Sendable {
        package let id: UInt64
        let registered: RegisteredWebhook
        package var webhook: Webhook { registered.webhook }
        package let content: Delivery.Content
        /// Number of the attempt, from 1, per message.
        package let number: Int
        package let startedAt: Timestamp
        /// Monotonic.
        package let started: UInt64
        /// The change it is about; nil for an operational message.
        package let heard: ScopeLog.Heard?
        let endpoint: Int
        let generation: Int
        let place: Admission.Class
        /// Whether the attempt stands for every version before its own.
        let folds: Bool

        init(
            _ id: UInt64, _ endpoint: Endpoint, _ place: Admission.Class, _ content: Delivery.Content, number: Int,
            heard: ScopeLog.Heard?, at now: Moment
        ) {
            self.id = id
            registered = endpoint.registered
            self.content = content
            self.number = number
            startedAt = now.wall
            started = now.monotonic
            self.heard = heard
            self.endpoint = endpoint.number
            generation = endpoint.generation
            self.place = place
            folds = endpoint.mode == .latest
        }
    }

    /// Last message, for webhooks that have acknowledged the same version before a change.
    private struct LastMessage {
        let heard: ScopeLog.Heard
        /// nil: its mode is not `latest`.
        let since: ScopeLog.Place?
        let content: Delivery.Content
    }

    struct Alarm: Comparable {
        let time: UInt64
        let endpoint: Int

        static func < (a: Self, b: Self) -> Bool { (a.time, a.endpoint) < (b.time, b.endpoint) }
    }

    let configuration: DeliveryConfiguration
    var random: any RandomNumberGenerator
    var endpoints = EndpointTable()
    /// The endpoints with a lane for it, in the order of their numbers; of some that are gone as well.
    var members: [Scope: [Int]] = [:]
    var logs: [Scope: ScopeLog] = [:]
    var routes: [TopicName: TopicBinding] = [:] { didSet { lastMessage = nil } }
    private var lastMessage: LastMessage?
    var attempts = AttemptTable()
    private var reads: [UInt64: (endpoint: Int, scope: Scope)] = [:]
    var admission: Admission
    private var alarms = Heap<Alarm>()
    /// Reads so far.
    private var counter: UInt64 = 0
    private var actions: [Action] = []
    package internal(set) var tally = DeliveryTally()
    /// Whether an attempt that takes at most so long may begin now, where webhooks are shared with other nodes.
    package var permits: (@Sendable (WebhookID, Duration) -> Bool)?
    /// Nanoseconds until a refused permit is asked for again.
    private static let permitAgainAfter: UInt64 = 1_000_000_000

    /// - Parameter random: the chance in waits.
    package init(_ configuration: DeliveryConfiguration, routes: [TopicBinding], random: any RandomNumberGenerator) {
        self.configuration = configuration
        self.random = random
        admission = Admission(places: configuration.maxInFlight)
        for route in routes { self.routes[route.name] = route }
    }

    /// Actions that follow from the facts since the last call, in order.
    package mutating func takeActions() -> [Action] {
        var taken: [Action] = []
        swap(&taken, &actions)
        return taken
    }

    /// Like ``takeActions()``, with an array that is empty and whose memory is used for the next actions.
    mutating func takeActions(into taken: inout [Action]) { swap(&taken, &actions) }

    mutating func act(_ action: Action) { actions.append(action) }
    mutating func put(_ entry: JournalEntry) { actions.append(.journal(entry)) }
    mutating func log(_ level: Logger.Level, _ message: Logger.Message, _ metadata: Logger.Metadata) {
        actions.append(.log(level, message, metadata))
    }

    // MARK: Planning

    /// Looks at a webhook after something about it has changed: queues it, sets its alarm or reads for it.
    mutating func touch(_ endpoint: Endpoint, at now: UInt64) {
        if endpoint.isQuiet { return }
        if endpoint.plain(at: now) != nil { return enqueue(endpoint) }
        for (lane, lost, found, isFar) in endpoint.advance(logs, routes) {
            if let found { put(.extras(endpoint.id, endpoint.lanes[lane].scope, [found], areOwed: true)) }
            if !lost.isEmpty { put(.extras(endpoint.id, endpoint.lanes[lane].scope, lost, areOwed: false)) }
            if isFar { putLane(endpoint, lane) }
        }
        var next = endpoint.next(at: now, logs, routes)
        while case .read(let lane, let after) = next {
            counter += 1
            endpoint.lanes[lane].reads.current = (counter, after)
            reads[counter] = (endpoint.number, endpoint.lanes[lane].scope)
            act(.read(counter, endpoint.lanes[lane].scope, after: after))
            next = endpoint.next(at: now, logs, routes)
        }
        switch next {
        case .send, .operational: enqueue(endpoint)
        case .wait(let time):
            if time >= endpoint.waiting.alarmAt { return }
            endpoint.waiting.alarmAt = time
            alarms.insert(Alarm(time: time, endpoint: endpoint.number))
        case .read, .nothing: break
        }
    }

    private mutating func enqueue(_ endpoint: Endpoint) {
        if endpoint.waiting.isQueued { return }
        endpoint.waiting.isQueued = true
        admission.enqueue(endpoint.number, endpoint.place)
    }

    /// The lane's record is to be written.
    mutating func putLane(_ endpoint: Endpoint, _ lane: Int) {
        put(.lane(endpoint.id, endpoint.lanes[lane].scope, endpoint.lanes[lane].recordToWrite()))
    }

    /// Time at which ``tick(at:)`` is wanted: 0 for at once, nil for not before another fact.
    package var nextTick: UInt64? {
        if admission.canStart { return 0 }
        var next = alarms.min?.time
        if admission.waiting > 0, admission.hasRoomForSlow, let first = attempts.firstStart {
            next = min(next ?? .max, first + configuration.pace.slowAfter.nanoseconds)
        }
        return next
    }

    /// Answers are taken in between, so that attempts at quick receivers follow each other on the same connections.
    private static let startsPerTurn = 32

    /// Time has passed, or a queue is not empty: starts what is due, some at a time.
    package mutating func tick(at now: Moment) {
        while let alarm = alarms.min, alarm.time <= now.monotonic {
            alarms.removeMin()
            // An alarm stays in the heap when an earlier one replaces it.
            guard let endpoint = endpoints[alarm.endpoint], endpoint.waiting.alarmAt == alarm.time else { continue }
            endpoint.waiting.alarmAt = .max
            touch(endpoint, at: now.monotonic)
        }
        let patience = configuration.pace.slowAfter.nanoseconds
        attempts.giveUpPlaces(startedBy: now.monotonic - min(now.monotonic, patience), &admission)
        for _ in 0..<Self.startsPerTurn {
            guard let (number, place) = admission.next() else { return }
            guard let endpoint = endpoints[number] else { continue }
            endpoint.waiting.isQueued = false
            start(endpoint, place, at: now)
            touch(endpoint, at: now.monotonic)
        }
    }

    // MARK: Attempts

    private mutating func start(_ endpoint: Endpoint, _ place: Admission.Class, at now: Moment) {
        guard permits?(endpoint.id, endpoint.timeout) ?? true else {
            endpoint.gate.notBefore = max(endpoint.gate.notBefore, now.monotonic + Self.permitAgainAfter)
            return
        }
        let content: Delivery.Content
        let (number, heard): (Int, ScopeLog.Heard?)
        let id = attempts.nextID()
        let next =
            endpoint.plain(at: now.monotonic).map { .send(lane: 0, $0) }
            ?? endpoint.next(at: now.monotonic, logs, routes)
        switch next {
        case .send(let lane, let next):
            content = message(of: next, since: endpoint.lanes[lane].record.acknowledged, endpoint.mode)
            heard = next
            number = endpoint.lanes[lane].begin(
                next, id, endpoint.mode, at: now.monotonic, interval: endpoint.minInterval)
            endpoint.took(lane)
        case .operational:
            endpoint.operational.attempt = id
            endpoint.operational.events[0].attempts += 1
            content = .operational(endpoint.operational.events[0].event)
            (number, heard) = (endpoint.operational.events[0].attempts, nil)
        case .read, .wait, .nothing: return
        }
        endpoint.begins(at: now.monotonic)
        admission.begin(place)
        let attempt = Attempt(id, endpoint, place, content, number: number, heard: heard, at: now)
        attempts.add(attempt)
        act(.start(attempt))
    }

    private mutating func message(
        of heard: ScopeLog.Heard, since: ScopeLog.Place, _ mode: DeliveryMode
    ) -> Delivery.Content {
        let since = mode == .latest ? since : nil
        if let last = lastMessage, last.heard === heard, last.since == since { return last.content }
        let content = Delivery.Content.stale(staleContent(heard, since))
        lastMessage = LastMessage(heard: heard, since: since, content: content)
        return content
    }

    /// - Parameter since: nil where the receiver is told of each version.
    private func staleContent(_ heard: ScopeLog.Heard, _ since: ScopeLog.Place?) -> Delivery.StaleContent {
        let change = heard.change
        let own = { [binding = routes[heard.topic]] (keys: [String]?) in binding.map { $0.own(keys) } ?? keys }
        guard let since else {
            return Delivery.StaleContent(
                topic: heard.topic, change: change, since: change.version > 1 ? change.version - 1 : nil,
                changedKeys: own(change.changedKeys))
        }
        guard since.version > 0, since.sequence < change.sequence, since.version < change.version else {
            return Delivery.StaleContent(
                topic: heard.topic, change: change, since: nil, changedKeys: own(change.changedKeys))
        }
        let (coalesced, keys) =
            logs[change.scope]?.folded(since: since, into: change, own: own) ?? (0, own(change.changedKeys))
        return Delivery.StaleContent(
            topic: heard.topic, change: change, since: since.version, coalesced: coalesced, changedKeys: keys)
    }

    /// Whether an attempt that had to wait for a token may go on; if not, end it as cancelled.
    package func mayStart(_ id: UInt64) -> Bool {
        guard let attempt = attempts[id], let endpoint = endpoints[attempt.endpoint] else { return false }
        return endpoint.isDeliverable && endpoint.generation == attempt.generation
            && permits?(endpoint.id, endpoint.webhook.settings.limits.timeout) ?? true
    }

    // MARK: The store

    /// Takes the versions that a read brought.
    ///
    /// - Parameter oldest: the first change of the scope that is stored; nil when the store could not be read.
    package mutating func read(_ id: UInt64, oldest: TemplateChange?, _ changes: [TemplateChange], at now: Moment) {
        guard let (number, scope) = reads.removeValue(forKey: id), let endpoint = endpoints[number],
            let lane = endpoint.lane(scope), endpoint.lanes[lane].reads.current?.id == id
        else { return }
        let (gap, extras) = endpoint.lanes[lane].read(
            oldest: oldest, changes, endpoint.mode, retryAt: now.monotonic + Self.rereadAfter)
        if !extras.isEmpty { put(.extras(endpoint.id, scope, extras, areOwed: true)) }
        if let gap {
            tellGap(gap, endpoint.id, scope, at: now)
            putLane(endpoint, lane)
        }
        touch(endpoint, at: now.monotonic)
    }

    /// Pause before a failed read is repeated, in nanoseconds.
    private static let rereadAfter: UInt64 = 5_000_000_000

    /// Reports versions that the store removed before they were sent: once, each by a dead letter, of which the newest
    /// ``DeliveryDatabase/maxDeadLetters`` are written.
    private mutating func tellGap(_ gap: LaneGap, _ id: WebhookID, _ scope: Scope, at now: Moment) {
        let first = gap.after.version + 1
        log(
            .error, "versions were removed by store.maxVersions before a webhook took them",
            ["webhook": "\(id)", "scope": "\(scope)", "versions": "\(first)-\(gap.through.version)"])
        // Numbers that an origin gives may leap; there are no more versions than commits.
        let commits = Int64(clamping: gap.through.sequence - gap.after.sequence)
        guard gap.through.version - gap.after.version <= commits else { return }
        for version in max(first, gap.through.version - (DeliveryDatabase.maxDeadLetters - 1))...gap.through.version
        where !gap.settled.contains(version) {
            bury(
                DeadLetter(
                    scope: scope, version: version, sequence: gap.through.sequence, reason: DeadLetter.pruned,
                    attempts: 0, lastStatus: nil, movedAt: now.wall), of: id)
        }
    }

    mutating func bury(_ letter: DeadLetter, of id: WebhookID) {
        tally.deadLetters += 1
        put(.dead(id, letter))
    }
}
