package import StalecastHub
package import StalecastWire

/// Times of the messages to Firebase's streams, by topic. Pure: the loop says the time, in milliseconds of any clock,
/// and does what is due.
///
/// Messages keep a distance, because these clients' parsers take one message from what one read returns: of two that
/// arrive together the second would be lost. Newest wins within the distance. A paced fan-out tells streams one after
/// the other, see ``PacedFanOut``. The newest message of a burst comes again, see ``BurstEcho``.
package struct Pacing: Sendable {
    package enum Decision: Sendable {
        case write
        case hold
        /// Hold it; another one that was held is passed over.
        case replace
    }

    package enum Step: Sendable {
        case write(TopicBoard.Announcement)
        /// Tell these streams, unless they were told meanwhile; the fan-out may be over with them.
        case turns([Int32], of: TopicBoard.Announcement, isLast: Bool)
        /// Say the newest message once more.
        case echo
    }

    fileprivate struct Pace {
        /// Time when the topic may have its next message.
        var until: UInt64 = 0
        var held: TopicBoard.Announcement?
        /// The first version that is held back.
        var heldSince: CommitSequence?
        var echo = BurstEcho()
        var fanOut: PacedFanOut<Int32>?
    }

    /// The distance, and a tick more: the loop may stand at the beginning of one.
    package static let distanceMs = UInt64(SubscriberPolicy.distanceMs) + TimerWheel.tickNanoseconds / 1_000_000

    /// Time from the last message of a burst to its echo.
    package var echoDelayMs: UInt64
    private var paces: [Topic.Index: Pace] = [:]
    /// Streams that a paced fan-out has not come to, each with the first version it was not told of.
    package private(set) var unreached: [Int32: CommitSequence] = [:]
    /// Streams of superseded fan-outs that one at once reaches, until that is over.
    private var reachedAtOnce: [Int32] = []
    private var turn = 0

    package init(echoDelayMs: UInt64) { self.echoDelayMs = echoDelayMs }

    // MARK: Distance

    package mutating func admit(
        _ announcement: TopicBoard.Announcement, on topic: Topic.Index, at now: UInt64
    ) -> Decision {
        guard let pace = paces[topic], pace.until > now else {
            paces[topic, default: Pace()].said(at: now, echoDelayMs)
            return .write
        }
        paces[topic]?.held = announcement
        return pace.held == nil ? .hold : .replace
    }

    /// Takes the message that a topic holds back, to be written now.
    package mutating func takeHeld(_ topic: Topic.Index, at now: UInt64) -> TopicBoard.Announcement? {
        paces[topic]?.takeHeld(at: now, echoDelayMs)
    }

    package func isHolding(_ topic: Topic.Index) -> Bool { paces[topic]?.held != nil }

    /// Notes that a version is among those that a topic holds back, if it does so.
    package mutating func noteHeld(_ topic: Topic.Index, _ sequence: CommitSequence) {
        if isHolding(topic), paces[topic]?.heldSince == nil { paces[topic]?.heldSince = sequence }
    }

    /// The first version that a topic holds back.
    package func heldSince(_ topic: Topic.Index) -> CommitSequence? { paces[topic]?.heldSince }

    /// The message that was held back is written: forgets since when.
    package mutating func takeHeldSince(_ topic: Topic.Index) -> CommitSequence? {
        defer { paces[topic]?.heldSince = nil }
        return heldSince(topic)
    }

    // MARK: Paced fan-outs

    /// Ends a topic's fan-out, because a newer message takes its place.
    ///
    /// - Returns: the streams that it has not come to.
    package mutating func supersede(_ topic: Topic.Index) -> [Int32] {
        guard let fanOut = paces[topic]?.fanOut else { return [] }
        paces[topic]?.fanOut = nil
        return fanOut.rest.filter { unreached[$0] != nil }
    }

    /// The streams of a superseded fan-out are told by one at once; see ``forgetReached()``.
    package mutating func reachAtOnce(_ rest: [Int32]) { reachedAtOnce += rest }

    /// Forgets the superseded fan-out's streams after one at once: they have been told, or are among the backlogs.
    package mutating func forgetReached() {
        for index in reachedAtOnce { unreached[index] = nil }
        reachedAtOnce.removeAll()
    }

    /// Begins to tell streams one after the other.
    ///
    /// - Parameters:
    ///   - first: what ``supersede(_:)`` returned; these have waited longest.
    ///   - members: all streams to tell.
    package mutating func begin(
        _ announcement: TopicBoard.Announcement, on topic: Topic.Index, first: [Int32], members: [Int32], at now: UInt64
    ) {
        let since = heldSince(topic) ?? announcement.change.sequence
        let others = members.filter { unreached[$0] == nil }
        for index in others { unreached[index] = since }
        turn += 1
        paces[topic, default: Pace()].fanOut = PacedFanOut(
            announcement, first: first, others: others, turn: turn, at: now)
    }

    /// A stream was told, or left, or its backlog brings the newest message.
    ///
    /// - Returns: the first version it was not told of; nil when it waited for no turn.
    @discardableResult
    package mutating func reached(_ index: Int32) -> CommitSequence? {
        unreached.isEmpty ? nil : unreached.removeValue(forKey: index)
    }

    /// Whether a stream's turn is still to come.
    func isDue(_ index: Int32, on topic: Topic.Index) -> Bool { paces[topic]?.fanOut?.rest.contains(index) ?? false }

    /// Ends a topic's fan-out: what is left of it is to be told now.
    package mutating func takeFanOut(_ topic: Topic.Index, at now: UInt64) -> PacedFanOut<Int32>? {
        guard let fanOut = paces[topic]?.fanOut else { return nil }
        paces[topic]?.fanOut = nil
        paces[topic]?.saidMore(at: now, echoDelayMs)
        return fanOut
    }

    // MARK: Steps

    /// Everything that is due, at most one step for each topic. A topic that holds a message back has no turns: that
    /// message supersedes them. While turns are waited for the burst is not over, so there is no echo.
    package mutating func steps(at now: UInt64) -> [(topic: Topic.Index, step: Step)] {
        var steps: [(Topic.Index, Step)] = []
        // Indexes paces by place: changing one through its key would take it out and hash it again.
        var place = paces.startIndex
        while place != paces.endIndex {
            if let step = paces.values[place].step(at: now, echoDelayMs) { steps.append((paces[place].key, step)) }
            paces.formIndex(after: &place)
        }
        return steps
    }

    /// A release split topics: their streams moved to `seats`, which go on where these were.
    package mutating func split(_ former: [Topic.Index], into seats: [Topic.Index]) {
        let paces = former.compactMap { self.paces[$0] }
        guard !paces.isEmpty else { return }
        var pace = Pace()
        pace.until = paces.map(\.until).max() ?? 0
        pace.echo = paces[0].echo
        for seat in seats { self.paces[seat] = pace }
    }
}

extension Pacing.Pace {
    fileprivate mutating func said(at now: UInt64, _ delayMs: UInt64) {
        until = now + Pacing.distanceMs
        echo.said(at: now, delayMs: delayMs)
    }

    fileprivate mutating func takeHeld(at now: UInt64, _ delayMs: UInt64) -> TopicBoard.Announcement? {
        guard let held else { return nil }
        self.held = nil
        said(at: now, delayMs)
        return held
    }

    /// Notes that the message went to more streams: the next one keeps its distance from these, and the burst goes on.
    fileprivate mutating func saidMore(at now: UInt64, _ delayMs: UInt64) {
        until = now + Pacing.distanceMs
        echo.saidMore(at: now, delayMs: delayMs)
    }

    fileprivate mutating func step(at now: UInt64, _ delayMs: UInt64) -> Pacing.Step? {
        if held != nil { return until <= now ? takeHeld(at: now, delayMs).map { .write($0) } : nil }
        guard var fanOut else { return echo.takeDue(at: now) ? .echo : nil }
        let turn = fanOut.due(at: now)
        self.fanOut = fanOut.isOver ? nil : fanOut
        guard !turn.isEmpty || fanOut.isOver else { return nil }
        saidMore(at: now, delayMs)
        return .turns(Array(turn), of: fanOut.announcement, isLast: fanOut.isOver)
    }
}

/// The streams of a topic that are told of a change one after the other, evenly over a time: Firebase's SDKs fetch
/// within three seconds whatever a message asks for. Pure: the loop that has the streams says the time and does the
/// telling.
package struct PacedFanOut<ID: Hashable & Sendable>: Sendable {
    package let announcement: TopicBoard.Announcement
    private let order: [ID]
    private var next = 0
    /// Start in milliseconds of any clock, as all times here.
    private let startedAt: UInt64
    private let length: UInt64

    /// - Parameters:
    ///   - first: those whom the fan-out before this one had not come to; they have waited longest.
    ///   - others: the rest; where they begin moves on with each `turn`, so that no stream is always the last.
    package init(
        _ announcement: TopicBoard.Announcement, first: [ID] = [], others: [ID], turn: Int, at now: UInt64
    ) {
        self.announcement = announcement
        startedAt = now
        length = UInt64(clamping: announcement.pacedOverMs)
        // Steps of the golden section of a circle come close to no place twice.
        let start = others.isEmpty ? 0 : Int(Double(turn & 0xFFFF) * 0.618_033_988_75 * 1e6) % others.count
        order = first + others[start...] + others[..<start]
    }

    /// Streams that it has not come to, also where they left meanwhile.
    package var rest: ArraySlice<ID> { order[next...] }
    package var isOver: Bool { next == order.count }

    /// Streams whose turn came since the last call.
    package mutating func due(at now: UInt64) -> ArraySlice<ID> {
        let elapsed = min(now - min(startedAt, now), length)
        let end = length == 0 ? order.count : Int(Double(order.count) * (Double(elapsed) / Double(length)))
        defer { next = max(next, end) }
        return order[next..<max(next, end)]
    }
}

/// Schedule of the repeated message: the newest of a burst is said once more on Firebase's streams.
///
/// The JS SDK does not read while it waits up to three seconds and fetches; of the messages that have piled up it then
/// takes the first and drops the others. When that first one is what the fetch has just brought, it is passed over and
/// the newest is lost until the stream ends. So the last message of a burst comes again when every client reads, once;
/// one that has the version already passes it over, or is told "no change". Messages that stand alone never come twice.
package struct BurstEcho: Equatable {
    /// Time when the last message was written; nil before the first. In milliseconds of any clock, as all times here.
    private var lastAt: UInt64?
    /// Time when the newest message is to be repeated; nil when it is not.
    package private(set) var due: UInt64?

    package init() {}

    /// A message was written.
    ///
    /// - Parameter delayMs: messages closer to each other than this are a burst; it is also how long after the last one
    ///   the echo follows.
    package mutating func said(at now: UInt64, delayMs: UInt64) {
        if let lastAt, now - lastAt < delayMs { due = now + delayMs }
        lastAt = now
    }

    /// Notes that the same message was written to more streams: the last one counts as written now.
    package mutating func saidMore(at now: UInt64, delayMs: UInt64) {
        if due != nil { due = now + delayMs }
        lastAt = now
    }

    /// True when the newest is to be said now; then, until there is another burst, not again.
    package mutating func takeDue(at now: UInt64) -> Bool {
        guard let due, due <= now else { return false }
        self.due = nil
        lastAt = nil
        return true
    }
}
