import StalecastWire

/// One version on its way, in memory.
struct VersionRollout {
    let version: VersionNumber
    let previous: VersionNumber?
    let sequence: CommitSequence
    /// Start on the book's clock.
    let startedAt: UInt64
    let announceTime: Timestamp
    let topics: Set<Topic.Index>
    /// Its place in the scope's ring.
    let bit: UInt32
    let isPartial: Bool
    /// A newer version was announced while some of the audience did not have this one. Clients that leave later or get
    /// the newer one do not make it converge.
    private(set) var isOvertaken = false
    var loops: [Int: StreamCounts] = [:]
    /// Clients in units of the sample; those not known and those that failed are counted when it is read.
    var clients = RolloutStatus.Clients()
    /// Streams of its audience with a client's id, in units of the sample.
    var identifiedStreams = 0
    var times = Times()
    var fetches = Fetches()
    /// Content of its row in the store; nil while it has none.
    var record: Record?

    /// Times until shares of its audience were on a stage.
    struct Times {
        var sent = StageTimes()
        var fetched = StageTimes()
        var active = StageTimes()
    }

    struct Fetches {
        var counts = RolloutStatus.Fetches()
        private var second: (number: UInt64, answers: Int) = (0, 0)

        mutating func answered(at now: UInt64) {
            let number = now / 1_000_000_000
            if second.number != number { second = (number, 0) }
            second.answers += 1
            counts.answers += 1
            counts.peakPerSecond = max(counts.peakPerSecond, second.answers)
        }
    }

    enum Record: Equatable {
        /// Counts that may still change.
        case counts(RolloutStatus.Clients, StreamCounts)
        case ended
    }

    init(_ announced: AnnouncedVersion, previous: VersionNumber?, bit: UInt32) {
        (version, sequence) = (announced.change.version, announced.change.sequence)
        (self.previous, self.bit) = (previous, bit)
        (topics, isPartial) = (announced.topics, announced.isPartial)
        (startedAt, announceTime) = (announced.now, announced.time)
        fetches.counts.windowMs = announced.fetchWindowMs
        if announced.isStored { record = .ended }
    }

    var number: UInt32 { UInt32(clamping: version.rawValue) }
    var streamCounts: StreamCounts { loops.values.reduce(into: StreamCounts()) { $0.merge($1) } }

    mutating func overtake() {
        // Called for each version in the ring at each publish: the sum of all counts is not needed.
        let isBacklogged = loops.values.contains { $0.backlogged > 0 }
        if clients.fetched < clients.awaited || isBacklogged { isOvertaken = true }
    }

    private func elapsed(_ now: UInt64) -> UInt64 { now > startedAt ? now - startedAt : 0 }

    /// A loop tells how far its streams are.
    ///
    /// - Parameter isComplete: all loops have told; until then the audience is not known.
    mutating func note(
        _ streamCounts: StreamCounts, of loop: Int, isComplete: (Int) -> Bool, at now: UInt64, _ all: inout StageSeconds
    ) {
        loops[loop] = streamCounts
        guard !isPartial, isComplete(loops.count) else { return }
        let sum = self.streamCounts
        times.sent.note(sum.told, of: sum.streams - sum.left, at: elapsed(now), &all.sent)
    }

    mutating func noteClients(weight: Int, at now: UInt64, _ all: inout StageSeconds) {
        guard !isPartial else { return }
        times.fetched.note(clients.fetched, of: clients.expected, weight: weight, at: elapsed(now), &all.fetched)
        times.active.note(clients.active, of: clients.expected, weight: weight, at: elapsed(now), &all.active)
    }

    static let lifetime: UInt64 = 3_600_000_000_000

    /// Whether each client of its audience has it or went.
    private func hasEnded(unknown: Int, isComplete: Bool) -> Bool {
        // After a restart clients that were there at the announcement may not be back yet.
        !isOvertaken && isComplete && streamCounts.backlogged == 0 && unknown == 0
            && clients.fetched >= clients.awaited && !(isPartial && clients.awaited == 0)
    }

    /// - Parameters:
    ///   - unknown: those of its audience of whom it is not known what they have.
    ///   - isNewest: no newer version was announced in the scope.
    ///   - isComplete: all loops have told.
    func propagation(
        unknown: Int, weight: Int, isNewest: Bool, isComplete: Bool, at now: UInt64
    ) -> RolloutStatus {
        let streamCounts = streamCounts
        let isOver = elapsed(now) > Self.lifetime
        var result = RolloutStatus(
            version: version, previous: previous, announceTime: announceTime,
            ageSeconds: Double(elapsed(now) / 1_000_000) / 1000,
            state: !isNewest ? .superseded : isOver ? .expired : .spreading, isPartial: isPartial)
        result.streams = streamCounts
        result.clients = clients.scaled(by: weight)
        result.clients.unknown = unknown * weight
        result.identifiedStreams = identifiedStreams * weight
        result.clients.unidentifiedStreams = max(0, streamCounts.streams - result.identifiedStreams)
        result.sent = times.sent
        result.fetched = times.fetched
        result.active = times.active
        result.fetches = fetches.counts
        result.isCounted = isComplete
        if hasEnded(unknown: unknown, isComplete: isComplete) { result.state = result.endState }
        return result
    }
}

/// Announcement of a version, as the rollouts take it.
struct AnnouncedVersion {
    let change: TemplateChange
    let topics: Set<Topic.Index>
    var fetchWindowMs = 0
    /// Whether a process before this one announced it.
    var isPartial = false
    /// Whether that process wrote down how far it was.
    var isStored = false
    /// Nanoseconds on the tracker's clock.
    let now: UInt64
    /// Time of the announcement by the system's clock.
    let time: Timestamp
}
