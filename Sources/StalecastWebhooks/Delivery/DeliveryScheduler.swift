import Logging
import StalecastOutbound
import StalecastWire
import Synchronization

/// Decides what is sent when. Everything in it belongs to the engine's thread; ``WebhookDelivery`` gets there.
final class DeliveryScheduler: @unchecked Sendable {
    let configuration: DeliveryConfiguration
    let engine: OutboundEngine
    let formatter: any AttemptFormatter
    let journal: DeliveryJournal
    let logger: Logger
    /// A scope's changes after a sequence, oldest first, at most so many; blocks, so never called on the loop.
    let history: @Sendable (Scope, CommitSequence, Int) -> [TemplateChange]

    var targets: [WebhookID: Target] = [:]
    /// Those of them that hear about webhooks.
    var hearers: [WebhookID: Target] = [:]
    var lanes: [Scope: [Lane]] = [:]
    var logs: [Scope: ScopeLog] = [:]
    var routes: [TopicName: TopicRoute] = [:]
    /// What the database held of webhooks that were not installed yet.
    var image: DeliveryDatabase.Image
    var admission: Admission
    var alarms = AlarmHeap()
    var tally = DeliveryTally()
    var random = SystemRandomNumberGenerator()
    private var numbers: UInt64 = 0
    /// Attempts by their start, to see which are slow.
    private var starts: [Run] = []
    private var firstStart = 0
    private var timer: (time: UInt64, timer: OutboundTimer)?
    private var isPumpPlanned = false
    private(set) var isStopped = false

    init(
        _ configuration: DeliveryConfiguration, _ engine: OutboundEngine, _ formatter: any AttemptFormatter,
        _ journal: DeliveryJournal, image: DeliveryDatabase.Image, routes: [TopicRoute],
        history: @escaping @Sendable (Scope, CommitSequence, Int) -> [TemplateChange], _ logger: Logger
    ) {
        self.configuration = configuration
        self.engine = engine
        self.formatter = formatter
        self.journal = journal
        self.image = image
        self.history = history
        self.logger = logger
        admission = Admission(places: configuration.maxInFlight)
        for route in routes { self.routes[route.name] = route }
    }

    func nextNumber() -> UInt64 {
        numbers += 1
        return numbers
    }

    func stop() { isStopped = true }

    /// Answers are taken in between, so that attempts at quick receivers follow each other on the same connections.
    private static let startsPerTurn = 32

    // MARK: Planning

    /// Queues the webhook when something can be sent now, or sets its alarm.
    func consider(_ target: Target, _ now: UInt64 = OutboundEngine.now()) {
        guard !target.isQueued, let start = target.nextStart() else { return }
        if start <= now {
            admission.enqueue(target)
            planPump()
        } else {
            alarms.set(target, at: start)
            arm()
        }
    }

    /// Once per turn of the loop, however many ask.
    private func planPump() {
        guard !isPumpPlanned else { return }
        isPumpPlanned = true
        engine.perform { self.pump() }
    }

    private func pump() {
        isPumpPlanned = false
        guard !isStopped else { return }
        let now = OutboundEngine.now()
        while let target = alarms.takeDue(now) { consider(target, now) }
        giveUpSlowPlaces(now)
        var left = Self.startsPerTurn
        while left > 0, let (target, place) = admission.next() {
            startOne(target, place, now)
            left -= 1
        }
        if left == 0, admission.waiting > 0 {
            isPumpPlanned = true
            engine.at(now) { self.pump() }
        }
        arm()
    }

    private func startOne(_ target: Target, _ place: Admission.Class, _ now: UInt64) {
        guard target.nextStart().map({ $0 <= now }) == true else { return consider(target, now) }
        if let later = target.bucket.take(target.ratePerSecond, at: now) {
            target.notBefore = later
            return consider(target, now)
        }
        guard let (lane, job, number) = target.takeJob(at: now) else { return consider(target, now) }
        let run = Run(target, lane, job, number: number, place: place, at: .now(), started: now)
        target.inFlight += 1
        admission.begin(place)
        starts.append(run)
        send(run)
        consider(target, now)
    }

    private func giveUpSlowPlaces(_ now: UInt64) {
        let patience = configuration.pace.slowAfter.nanoseconds
        while firstStart < starts.count, starts[firstStart].isOver || starts[firstStart].started + patience <= now {
            let run = starts[firstStart]
            if !run.isOver {
                guard admission.giveUpPlace(run.place) else { break }
                run.isSlow = true
            }
            firstStart += 1
        }
        if firstStart > 1024 || firstStart == starts.count {
            starts.removeFirst(firstStart)
            firstStart = 0
        }
    }

    /// Wakes the loop for the next alarm, or when a slow attempt will give up a place that somebody waits for.
    private func arm() {
        var next = alarms.next
        if admission.waiting > 0, admission.hasRoomForSlow, firstStart < starts.count {
            let slow = starts[firstStart].started + configuration.pace.slowAfter.nanoseconds
            next = min(next ?? slow, max(slow, OutboundEngine.now() + 1_000_000))
        }
        guard let next, timer.map({ next < $0.time }) ?? true else { return }
        if let timer { engine.cancel(timer.timer) }
        let timer = engine.at(next) {
            self.timer = nil
            self.pump()
        }
        self.timer = (next, timer)
    }

    // MARK: Sending

    private func send(_ run: Run) {
        let target = run.target
        let delivery = Delivery(webhook: target.id, content: content(of: run), attempt: run.number)
        do {
            switch try formatter.request(for: delivery, webhook: target.webhook, at: run.startedAt) {
            case .ready(let request, let messageID):
                run.messageID = messageID
                let box = Unchecked(run)
                engine.submit(request) { self.finish(box.value, $0) }
            case .needsToken(let fetch): fetchToken(fetch, run)
            }
        } catch {
            // Not at once: whoever starts attempts is in the middle of it.
            let box = Unchecked((run, error))
            engine.perform { self.couldNotStart(box.value.0, box.value.1) }
        }
    }

    private func fetchToken(_ fetch: @escaping @Sendable () async throws(AttemptProblem) -> Void, _ run: Run) {
        let box = Unchecked(run)
        let engine = engine
        Task {
            do throws(AttemptProblem) {
                try await fetch()
                engine.perform { self.send(box.value) }
            } catch {
                engine.perform { self.couldNotStart(box.value, error) }
            }
        }
    }

    private func content(of run: Run) -> Delivery.Content {
        switch run.job {
        case .notice(let notice): .operational(notice.event)
        case .newest(let heard): .stale(newest(heard, run.lane))
        case .owed(let owed):
            .stale(
                StaleContent(
                    topic: owed.heard.topic, change: owed.heard.change,
                    since: owed.heard.change.version > 1 ? owed.heard.change.version - 1 : nil,
                    changedKeys: owed.heard.change.changedKeys))
        }
    }

    private func newest(_ heard: Heard, _ lane: Lane?) -> StaleContent {
        let acknowledged = lane?.acknowledged.version ?? 0
        let since = acknowledged > 0 && acknowledged < heard.change.version ? acknowledged : nil
        let (coalesced, keys) =
            logs[heard.change.scope]?.folded(since: since, into: heard.change) ?? (0, heard.change.changedKeys)
        return StaleContent(
            topic: heard.topic, change: heard.change, since: since, coalesced: coalesced, changedKeys: keys)
    }

    // MARK: Ends

    /// Frees the attempt's places; the outcome is taken in by the caller.
    func end(_ run: Run) {
        run.isOver = true
        run.target.inFlight -= 1
        run.lane?.inFlight -= 1
        if run.lane == nil { run.target.isNoticeInFlight = false }
        admission.end(run.place, isSlow: run.isSlow)
        if admission.waiting > 0 { planPump() }
    }
}

/// Something that stays on one thread although a closure that must be sendable carries it there.
struct Unchecked<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
