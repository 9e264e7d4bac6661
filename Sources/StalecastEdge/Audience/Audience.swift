import StalecastAccess
package import StalecastHub
import StalecastHTTP
import StalecastWire

/// The subscribers of one loop, and what they were promised: the same for the engine and the Front.
///
/// Pure: it has no socket and no clock. ``Carrier`` feeds it with facts and does what it says. The engine's fan-out
/// walks ``members`` and ``slots`` itself.
package struct Audience {
    package let slots = SlotTable()
    var policy: SubscriberPolicy
    package var board: TopicBoard
    package var members: Members
    package var pacing: Pacing
    var wheel = TimerWheel()
    package var tally = EdgeTally()
    package var backlogs: [Int32: Backlog] = [:]
    var reach = Reach()
    var notes = SlotNotes()
    var bytes = ByteCache()
    var canaries = CanarySeats()
    var heard = HeardScopes()
    var doomed: [(index: Int32, reason: DropReason)] = []
    /// End of a running drain; nil while there is none.
    var drainEnd: Tick?

    package init(_ board: TopicBoard, _ settings: EdgeSettings) {
        self.board = board
        policy = SubscriberPolicy(settings)
        pacing = Pacing(echoDelayMs: UInt64(settings.times.burstEcho.milliseconds))
        members = Members(slots)
        members.grow(to: board.topics.count)
    }

    package var settings: EdgeSettings { policy.settings }

    /// - Returns: whether something changed that may have taken a subscriber's right from it.
    mutating func apply(_ settings: EdgeSettings) -> Bool {
        let before = self.settings
        policy = SubscriberPolicy(settings)
        pacing.echoDelayMs = UInt64(settings.times.burstEcho.milliseconds)
        // Origins that held polls will need again must be found again.
        if tally.polls == 0 { notes.origins = [""] }
        return settings.mayRevoke(after: before)
    }

    var nowMs: UInt64 { UInt64(wheel.now) * Self.tickMs }
    static let tickMs = TimerWheel.tickNanoseconds / 1_000_000

    // MARK: Membership

    /// Takes a slot for a subscriber of a carrier that has no slots for its connections.
    package func seat(_ address: UInt64) -> Int32 {
        let index = slots.take()
        slots[index].pointee.client.address = address
        slots[index].pointee.phase = .head
        return index
    }

    mutating func subscribe(_ index: Int32, to topics: [Topic.Index]) {
        if let hold = settings.access.hold(slots[index].pointee.client.principal) { notes.holds[index] = hold }
        members.add(index, to: topics)
        for topic in topics { heard.add(board[topic].scope) }
    }

    mutating func seatCanary(_ end: CanaryEnd, of scope: Scope) {
        canaries.add(end, of: scope)
        heard.setCanaries(canaries.scopes)
    }

    mutating func unsubscribe(_ index: Int32) {
        members.remove(index)
        if !notes.holds.isEmpty { notes.holds[index] = nil }
    }

    mutating func forgetUnheard() {
        heard.keep(members.scopes(on: board))
        heard.setCanaries(canaries.scopes)
    }

    func topics(of index: Int32) -> [Topic.Index] { members.topics(of: index) }

    /// Takes the topics of a board of the same moment.
    mutating func takeTopics(of board: TopicBoard) {
        self.board.takeTopics(of: board)
        bytes.forgetStates()
        members.grow(to: self.board.topics.count)
    }

    mutating func rebind(to board: TopicBoard) -> [Int32] {
        takeTopics(of: board)
        bytes.messages.removeAll()
        let retired = self.board.topics.indices.filter { self.board.topics[$0].isRetired }
        return members.all(of: retired.map { Topic.Index($0) })
    }

    func audience(of message: DataMessage) -> [Int32] {
        if case .topic(let name) = message.target { return members.all(of: board.audience(name, in: message.project)) }
        return (0..<slots.end).filter { index in
            let slot = slots[index].pointee
            return slot.isSubscriber && !slot.request.kind.isOfScope && message.reaches(topics(of: index), on: board)
        }
    }

    // MARK: Messages

    mutating func encoded(_ debts: [Debt]) -> [EncodedMessage] {
        debts.map { bytes.messages.encodedMessage(for: $0, on: board) }
    }

    /// Sequence up to which a stream without a backlog has everything.
    func told(_ index: Int32) -> CommitSequence {
        pacing.unreached.isEmpty ? board.headSequence : pacing.unreached[index].map { $0 - 1 } ?? board.headSequence
    }

    // MARK: Backlogs

    mutating func hold(_ rest: [UInt8], for index: Int32, through sequence: CommitSequence, acknowledged: UInt64) {
        backlogs[index] = Backlog(bytes: rest, through: sequence, progress: wheel.now, acknowledged: acknowledged)
        slots[index].pointee.hasBacklog = true
        slots[index].pointee.phase = .stream
        reschedule(index)
    }

    /// Puts what the board says is owed now into an emptied backlog; false when nothing is.
    mutating func refill(_ backlog: inout Backlog, _ index: Int32) -> Bool {
        let debts = board.owed(to: topics(of: index), after: backlog.through)
        guard !debts.isEmpty || backlog.data != nil else { return false }
        let dialect = slots[index].pointee.dialect
        var bytes: [UInt8] = []
        dialect.append(encoded(debts), to: &bytes)
        if let data = backlog.data { dialect.append(chunk: data.chunk, to: &bytes) }
        tally.deliveries[dialect.transport, default: 0] += debts.count + (backlog.data == nil ? 0 : 1)
        tally.coalesced += max(0, backlog.deferred - debts.count)
        let since = min(backlog.unsentSince ?? .max, pacing.reached(index) ?? .max)
        backlog = Backlog(
            bytes: bytes, through: board.headSequence, progress: backlog.progress, acknowledged: backlog.acknowledged,
            unsentSince: since == .max ? nil : since)
        return true
    }

    /// Takes the bytes that a client has acknowledged. The socket is not reported writable before a third of its buffer
    /// is free, nor TLS before a whole record is gone.
    ///
    /// - Returns: whether these are more than before.
    mutating func hasTakenMore(_ index: Int32, acknowledged: UInt64) -> Bool {
        guard let before = backlogs[index]?.acknowledged, acknowledged > before else { return false }
        backlogs[index]?.acknowledged = acknowledged
        backlogs[index]?.progress = wheel.now
        return true
    }

    mutating func endBacklog(_ index: Int32) {
        let backlog = backlogs.removeValue(forKey: index)
        tally.coalesced += backlog?.deferred ?? 0
        if backlog?.unsentSince != nil { reach.rollouts.hasNews = true }
        slots[index].pointee.hasBacklog = false
    }

    // MARK: Timers

    /// Puts a stream back in the wheel for what comes first: heartbeat, end of life, or the write-stall limit.
    mutating func reschedule(_ index: Int32) {
        let slot = slots[index].pointee
        wheel.remove(index, in: slots)
        var due = slot.times.next
        if slot.hasBacklog, let backlog = backlogs[index] { due = min(due, stallDeadline(backlog)) }
        wheel.insert(index, due: due, in: slots)
    }

    func stallDeadline(_ backlog: Backlog) -> Tick {
        backlog.progress + TimerWheel.ticks(settings.connections.writeStallLimit.milliseconds)
    }

    /// Begins a stream's timers.
    ///
    /// - Parameter expiry: milliseconds for which the credential is good; nil for ever.
    mutating func scheduleStream(_ index: Int32, until expiry: Int?) {
        let slot = slots[index]
        let life = min(policy.lifetimeMs(of: slot.pointee.request.kind), Self.life(expiry))
        slot.pointee.times.heartbeat = wheel.now + TimerWheel.ticks(policy.heartbeatMs())
        slot.pointee.times.deadline = wheel.now + TimerWheel.ticks(life)
        scheduleWarning(index, until: expiry)
        wheel.insert(index, due: slot.pointee.times.next, in: slots)
    }

    /// Time to the end of a credential: a tick more, for the wheel may stand at the beginning of one.
    static func life(_ expiry: Int?) -> Int { expiry.map { $0 + 150 } ?? .max }

    private func scheduleWarning(_ index: Int32, until expiry: Int?) {
        guard let expiry, !slots[index].pointee.request.kind.isOfScope else { return }
        slots[index].pointee.times.warning =
            wheel.now + TimerWheel.ticks(expiry - SubscriberPolicy.warningMs(before: expiry))
    }

    /// Ends a subscriber at `deadline` if it would live longer.
    mutating func shorten(_ index: Int32, to deadline: Tick) {
        let slot = slots[index]
        slot.pointee.times.deadline = min(deadline, slot.pointee.times.deadline)
        // A poll has no heartbeat that could come before.
        if slot.pointee.phase == .poll { slot.pointee.times.heartbeat = .max }
        reschedule(index)
    }

    func endReason(_ index: Int32) -> DropReason {
        if drainEnd != nil { return .drain }
        let number = slots[index].pointee.client.principal
        guard number != 0, settings.access.mode == .enforce else { return .lifetime }
        return settings.access.currentPrincipal(of: number) == nil ? .expired : .lifetime
    }

    /// Looks at every subscriber again, because principals may have lost something, and shortens lives of credentials
    /// that got another end.
    ///
    /// - Returns: the subscribers that may not hear their topics any more.
    mutating func recheckAccess() -> [Int32] {
        let indexes = (0..<slots.end).filter { slots[$0].pointee.isSubscriber }
        guard settings.access.mode == .enforce else {
            return indexes.filter { !settings.keys.admit(slots[$0].pointee.client.apiKey) }
        }
        // Thousands of streams may share a principal: each is looked up once.
        var standings: [Int32: Principal?] = [:]
        return indexes.filter { index in
            let number = slots[index].pointee.client.principal
            let principal = standings[number] ?? settings.access.currentPrincipal(of: number)
            standings[number] = principal
            guard let principal, topics(of: index).allSatisfy({ principal.may(.watch, topic: board[$0]) }) else {
                return true
            }
            guard let left = principal.expiresInMs else { return false }
            let deadline = wheel.now + TimerWheel.ticks(Self.life(left))
            guard deadline < slots[index].pointee.times.deadline else { return false }
            if slots[index].pointee.phase != .poll { scheduleWarning(index, until: left) }
            shorten(index, to: deadline)
            return false
        }
    }

    package mutating func drain(over milliseconds: Int) {
        drainEnd = wheel.now + TimerWheel.ticks(milliseconds + SubscriberPolicy.drainGraceMs)
        for index in 0..<slots.end where slots[index].pointee.isSubscriber {
            slots[index].pointee.times.deadline = .max
            shorten(index, to: wheel.now + TimerWheel.ticks(policy.drainWaitMs(over: milliseconds)))
        }
    }

    mutating func drainRetryMs(connections: Int) -> Int {
        let end = drainEnd ?? wheel.now
        let left = Int(end - min(end, wheel.now)) * Int(TimerWheel.tickNanoseconds / 1_000_000)
        return policy.drainRetryMs(left: left, connections: connections)
    }
}

/// Facts about subscribers that their slots have no room for.
struct SlotNotes {
    /// Keeps the principals of streams and held polls known; those of keys need none.
    var holds: [Int32: PrincipalHold] = [:]
    /// Names in a poll's request that mean nothing; its answer says so.
    var unknown: [Int32: [TopicName]] = [:]
    /// Rounds of the polls that are held for many clients.
    var shared: [Int32: SharedPoll] = [:]
    /// Allowed origins that held polls will need again, from 1.
    var origins: [String] = [""]

    /// Only allowed origins are remembered, so the list cannot grow by what clients send.
    mutating func remember(_ origin: String?, _ allowed: [String]) -> UInt16 {
        guard let origin, allowed.contains(origin) else { return 0 }
        if let place = origins.firstIndex(of: origin) { return UInt16(place) }
        guard origins.count <= UInt16.max else { return 0 }
        origins.append(origin)
        return UInt16(origins.count - 1)
    }
}

/// Bytes that many subscribers are sent alike: messages, and heads that change once a second.
struct ByteCache {
    var messages = EncodedMessageCache()
    var date = HTTPDate()
    /// Buffer for a message that is made for one subscriber.
    var out: [UInt8] = []
    private var stream: (second: String, cors: String, bytes: [UInt8]) = ("", "", [])
    private var fetch: (second: String, fields: String, bytes: [UInt8]) = ("", "", [])
    private var synced: (sequence: CommitSequence, chunk: [UInt8]) = (.max, [])
    private var state: (second: String, sequence: CommitSequence) = ("", .max)
    /// Answers with the state of topics that are all known, for connections that are kept.
    private var states: [StateKey: [UInt8]] = [:]
    private static let maxStates = 64

    private struct StateKey: Hashable {
        let topics: [Topic.Index]
        let cors: String
    }

    /// The head of a stream; that of the ordinary ones is built once a second.
    mutating func stream(_ dialect: StreamDialect, _ cors: String) -> [UInt8] {
        let second = date.string()
        guard dialect.isHTTP11, dialect.kind == .events else {
            return ResponseHead.stream(dialect, cors: cors, date: second)
        }
        if stream.second != second || stream.cors != cors {
            stream = (second, cors, ResponseHead.stream(dialect, cors: cors, date: second))
        }
        return stream.bytes
    }

    mutating func fetchEnding(_ fields: String) -> [UInt8] {
        let second = date.string()
        if fetch.second != second || fetch.fields != fields {
            fetch = (second, fields, FetchBytes.ending(date: second, fields: fields))
        }
        return fetch.bytes
    }

    mutating func synced(_ head: Cursor, _ dialect: StreamDialect) -> [UInt8] {
        guard dialect.isHTTP11 else { return StreamDialect.synced(head) }
        if synced.sequence != head.sequence {
            synced = (head.sequence, ChunkEncoder.chunk(StreamDialect.synced(head)))
        }
        return synced.chunk
    }

    /// A whole answer with the state of topics; kept for its second, unless something is announced before.
    mutating func state(_ topics: AdmittedTopics, on board: TopicBoard, cors: String, keepAlive: Bool) -> [UInt8] {
        let now = (second: date.string(), sequence: board.headSequence)
        let key = StateKey(topics: topics.known, cors: cors)
        let isKept = keepAlive && topics.unknown.isEmpty
        if isKept, state == now, let kept = states[key] { return kept }
        let answer = ResponseHead.response(
            status: 200, fields: PollDialect.etagField(board.head), cors: cors, date: now.second, keepAlive: keepAlive,
            body: StateDialect.body(topics, on: board))
        if !isKept { return answer }
        if state != now || states.count == Self.maxStates { states.removeAll(keepingCapacity: true) }
        state = now
        states[key] = answer
        return answer
    }

    mutating func forgetStates() { states.removeAll() }
}
