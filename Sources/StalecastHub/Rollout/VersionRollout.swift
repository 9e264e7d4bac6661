package import StalecastWire

/// Progress of one version, as of a moment. Streams and clients are two populations: all that listen, and those that
/// say who it is.
package struct RolloutStatus: Sendable, Hashable {
    /// Raw values are on the wire.
    package enum State: String, Sendable {
        case spreading = "SPREADING"
        /// Every client that was there and is still there has it.
        case converged = "CONVERGED"
        case superseded = "SUPERSEDED"
        /// An hour is over: no client is awaited any more.
        case expired = "EXPIRED"
        /// No stream and no client was there when it was announced.
        case noAudience = "NO_AUDIENCE"
        /// The whole audience went without having it.
        case left = "LEFT"

        /// Nothing more is expected: each of the audience has it or went.
        var isDone: Bool { self == .converged || self == .noAudience || self == .left }
    }

    /// Identified clients; `audience` = `fetched` + `behind` + `unknown` + `left`.
    package struct Clients: Sendable, Hashable {
        /// Clients that were live and had an older version when it was announced.
        package var audience = 0
        package var fetched = 0
        package var active = 0
        package var failed = 0
        /// Gone for longer than ten seconds without having fetched.
        package var left = 0
        /// They came back after a restart of the daemon and have not said what they have.
        package var unknown = 0
        /// Streams of the audience without a client's id.
        package var unidentifiedStreams = 0
        /// Number of clients for which a counted one stands; 1 is exact.
        package var weight = 1

        package init() {}

        /// Clients that are awaited: the denominator of every share.
        package var awaited: Int { max(0, audience - left) }
        package var behind: Int { max(0, awaited - fetched - unknown) }

        /// The standard error of the share that fetched, √(p(1−p)/n); 0 when all are counted.
        package var error: Double {
            guard weight > 1, awaited > 0 else { return 0 }
            let share = min(1, Double(fetched) / Double(awaited))
            return (share * (1 - share) / (Double(awaited) / Double(weight))).squareRoot()
        }
    }

    package let version: VersionNumber
    /// nil for the first.
    package let previous: VersionNumber?
    package let announceTime: Timestamp
    package var ageSeconds = 0.0
    package var state: State
    /// The daemon began anew meanwhile: counted from reconnects, without times.
    package let isPartial: Bool
    package let fetchWindowMs: Int
    package var streams = StreamCounts()
    package var clients = Clients()
    package var sent = StageTimes()
    package var fetched = StageTimes()
    package var active = StageTimes()
    /// Answers of `:fetch` since the announcement, refusals for no fault of the client's, and the most answers within a
    /// second.
    package var answers = 0
    package var errors = 0
    package var peakPerSecond = 0
    /// Streams of the audience with a client's id.
    package var identifiedStreams = 0
    /// All loops have told how many streams they have: what the audience is, is known.
    package var isCounted = true
    /// False for one of the store, which keeps only sums.
    package var isFromMemory = true

    /// Number of awaited clients on a rung, and of all awaited ones.
    package func share(of stage: Stage) -> (count: Int, awaited: Int) {
        switch stage {
        case .sent: (streams.told, streams.streams - streams.left)
        case .received: (streams.received, streams.streams - streams.left)
        case .fetched: (clients.fetched, clients.awaited)
        case .active: (clients.active, clients.awaited)
        }
    }

    /// The rungs that can be waited for. Raw values are on the wire.
    package enum Stage: String, Sendable, CaseIterable {
        case sent, received, fetched, active

        /// It is counted by clients, of which only those are known that say who they are.
        package var isOfClients: Bool { self == .fetched || self == .active }
    }

    /// Fewer than half of the streams say who they are: what clients do tells little.
    package var isMostlyAnonymous: Bool { clients.unidentifiedStreams * 2 > streams.streams }
}

/// Times that streams and clients took from an announcement to a rung, of all versions since the start.
package struct StageSeconds: Sendable, Hashable {
    package internal(set) var sent = Histogram(bounds: bounds)
    package internal(set) var fetched = Histogram(bounds: bounds)
    package internal(set) var active = Histogram(bounds: bounds)

    private static let bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
}

/// One version on its way, in memory.
struct VersionRollout {
    let version: VersionNumber
    let previous: VersionNumber?
    let sequence: CommitSequence
    /// Start on the book's clock.
    let startedAt: UInt64
    let announceTime: Timestamp
    let fetchWindowMs: Int
    /// Topics that announced it.
    let topics: Set<Topic.Index>
    /// Its place in the scope's ring.
    let bit: UInt32
    let isPartial: Bool
    var loops: [Int: StreamCounts] = [:]
    /// Number of clients, in units of the sample.
    var audience = 0
    var fetched = 0
    var active = 0
    var left = 0
    var identifiedStreams = 0
    var sent = StageTimes()
    var got = StageTimes()
    var runs = StageTimes()
    var answers = 0
    var errors = 0
    var peak = 0
    private var second: (number: UInt64, answers: Int) = (0, 0)
    /// A row of the store says how it ended.
    var isStored = false
    /// A row of the store says how far it was when a newer version came.
    var isNoted = false

    init(
        _ change: TemplateChange, previous: VersionNumber?, topics: Set<Topic.Index>, fetchWindowMs: Int, bit: UInt32,
        isPartial: Bool, startedAt: UInt64, announceTime: Timestamp
    ) {
        version = change.version
        sequence = change.sequence
        self.previous = previous
        self.topics = topics
        self.fetchWindowMs = fetchWindowMs
        self.bit = bit
        self.isPartial = isPartial
        self.startedAt = startedAt
        self.announceTime = announceTime
    }

    var number: UInt32 { UInt32(clamping: version.rawValue) }
    var awaited: Int { audience - left }
    var streamCounts: StreamCounts { loops.values.reduce(into: StreamCounts()) { $0.merge($1) } }

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
        sent.note(sum.told, of: sum.streams - sum.left, at: elapsed(now), &all.sent)
    }

    mutating func noteClients(weight: Int, at now: UInt64, _ all: inout StageSeconds) {
        guard !isPartial else { return }
        got.note(fetched, of: awaited, weight: weight, at: elapsed(now), &all.fetched)
        runs.note(active, of: awaited, weight: weight, at: elapsed(now), &all.active)
    }

    mutating func answered(at now: UInt64) {
        let number = now / 1_000_000_000
        if second.number != number { second = (number, 0) }
        second.answers += 1
        answers += 1
        peak = max(peak, second.answers)
    }

    static let lifetime: UInt64 = 3_600_000_000_000

    /// End state, when each client of its audience has it or went.
    private func end(unknown: Int, weight: Int, isComplete: Bool) -> RolloutStatus.State? {
        let streamCounts = streamCounts
        guard isComplete, streamCounts.backlogged == 0, unknown == 0, fetched >= awaited else { return nil }
        // Clients that were there at the announcement may not be back yet.
        if isPartial, awaited == 0 { return nil }
        if audience == 0, streamCounts.streams == 0, streamCounts.polls == 0 { return .noAudience }
        let isOfClients = audience > 0 && streamCounts.streams - identifiedStreams * weight <= streamCounts.streams / 2
        let isLeft =
            isOfClients
            ? awaited == 0
            : streamCounts.streams > 0 && streamCounts.left == streamCounts.streams && streamCounts.polls == 0
        return isLeft ? .left : .converged
    }

    /// - Parameters:
    ///   - unknown: those of its audience of whom it is not known what they have.
    ///   - isNewest: no newer version was announced in the scope.
    ///   - isComplete: all loops have told.
    func propagation(
        failed: Int, unknown: Int, weight: Int, isNewest: Bool, isComplete: Bool, at now: UInt64
    ) -> RolloutStatus {
        let streamCounts = streamCounts
        let isOver = elapsed(now) > Self.lifetime
        let state =
            end(unknown: unknown, weight: weight, isComplete: isComplete)
            ?? (!isNewest ? .superseded : isOver ? .expired : .spreading)
        var result = RolloutStatus(
            version: version, previous: previous, announceTime: announceTime,
            ageSeconds: Double(elapsed(now) / 1_000_000) / 1000, state: state, isPartial: isPartial,
            fetchWindowMs: fetchWindowMs)
        result.streams = streamCounts
        result.clients.audience = audience * weight
        result.clients.fetched = fetched * weight
        result.clients.active = active * weight
        result.clients.left = left * weight
        result.clients.failed = failed * weight
        result.clients.unknown = unknown * weight
        result.identifiedStreams = identifiedStreams * weight
        result.clients.unidentifiedStreams = max(0, streamCounts.streams - result.identifiedStreams)
        result.clients.weight = weight
        (result.sent, result.fetched, result.active) = (sent, got, runs)
        (result.answers, result.errors, result.peakPerSecond) = (answers, errors, peak)
        result.isCounted = isComplete
        return result
    }
}
