package import StalecastWire

/// Progress of one version, as of a moment. Streams and clients are two populations: all that listen, and those that
/// say who it is.
package struct RolloutStatus: Sendable, Hashable {
    /// Raw values are on the wire.
    package enum State: String, Sendable {
        case spreading = "SPREADING"
        /// Every client that is still there has it, and at most 1 % went after they were told.
        case converged = "CONVERGED"
        case superseded = "SUPERSEDED"
        /// An hour is over: no client is awaited any more.
        case expired = "EXPIRED"
        /// No stream and no client was there when it was announced.
        case noAudience = "NO_AUDIENCE"
        /// Every client that is still there has it, and more than 1 % went after they were told, or all went.
        case left = "LEFT"

        /// Each client of the audience has it or went.
        package var isDone: Bool { self == .converged || self == .noAudience || self == .left }
    }

    /// Identified clients; `audience` = `fetched` + `behind` + `unknown` + `left`, and `left` includes `lost`.
    package struct Clients: Sendable, Hashable {
        /// Clients that were live and had an older version when it was announced.
        package var audience = 0
        package var fetched = 0
        package var active = 0
        package var failed = 0
        /// Gone for longer than ten seconds without having fetched.
        package var left = 0
        /// Clients among ``left`` that went after they were told; all of them where ``isLostKnown`` is false.
        package var lost = 0
        /// False where a node of release 0.2.0 or before counted: it does not say whether clients that left were told.
        package var isLostKnown = true
        /// Clients that came back after a restart of the daemon and have not said what they have.
        package var unknown = 0
        /// Streams of the audience without a client's id.
        package var unidentifiedStreams = 0
        /// Number of clients for which a counted one stands; 1 is exact.
        package var weight = 1

        package init() {}

        private static let counts: [any WritableKeyPath<Self, Int> & Sendable] = [
            \.audience, \.fetched, \.active, \.failed, \.left, \.lost, \.unknown, \.unidentifiedStreams,
        ]

        /// Counts of a sample in which each client stands for `weight`.
        func scaled(by weight: Int) -> Self {
            var clients = Self.counts.reduce(into: self) { $0[keyPath: $1] *= weight }
            clients.weight = weight
            return clients
        }

        /// Adds the clients of another node, which may count a smaller sample.
        mutating func add(_ other: Self) {
            for count in Self.counts { self[keyPath: count] += other[keyPath: count] }
            isLostKnown = isLostKnown && other.isLostKnown
            weight = max(weight, other.weight)
        }

        package var awaited: Int { max(0, audience - left) }
        /// Clients that every share is of. Those that went after they were told count: the version may have ended them.
        package var expected: Int { awaited + lost }
        package var behind: Int { max(0, awaited - fetched - unknown) }

        /// The standard error of the share that fetched, √(p(1−p)/n); 0 when all are counted.
        package var error: Double {
            guard weight > 1, expected > 0 else { return 0 }
            let share = min(1, Double(fetched) / Double(expected))
            return (share * (1 - share) / (Double(expected) / Double(weight))).squareRoot()
        }
    }

    package struct Fetches: Sendable, Hashable {
        package internal(set) var answers = 0
        /// Refusals for no fault of the client's.
        package internal(set) var errors = 0
        /// Most answers within a second.
        package internal(set) var peakPerSecond = 0
        /// Time over which clients were asked to spread them.
        package internal(set) var windowMs = 0
    }

    package let version: VersionNumber
    /// nil for the first.
    package let previous: VersionNumber?
    package let announceTime: Timestamp
    package var ageSeconds = 0.0
    package var state: State
    /// The daemon started over meanwhile: counted from reconnects, without times.
    package let isPartial: Bool
    package var streams = StreamCounts()
    package var clients = Clients()
    package var sent = StageTimes()
    package var fetched = StageTimes()
    package var active = StageTimes()
    package var fetches = Fetches()
    /// Streams of the audience with a client's id.
    package var identifiedStreams = 0
    /// All loops have told how many streams they have: what the audience is, is known.
    package var isCounted = true
    /// False for one of the store, which keeps only sums.
    package var isFromMemory = true

    /// Number of clients or streams in a stage, and number that its share is of.
    package func share(of stage: Stage) -> (count: Int, expected: Int) {
        switch stage {
        case .sent: (streams.told, streams.streams - streams.left)
        case .received: (streams.received, streams.streams - streams.left)
        case .fetched: (clients.fetched, clients.expected)
        case .active: (clients.active, clients.expected)
        }
    }

    var endState: State {
        if clients.audience == 0, streams.streams == 0, streams.polls == 0 { return .noAudience }
        if !isMostlyAnonymous, clients.fetched * 100 < clients.expected * 99 { return .left }
        let hasNone =
            clients.audience > 0 && !isMostlyAnonymous
            ? clients.awaited == 0
            : streams.streams > 0 && streams.left == streams.streams && streams.polls == 0
        return hasNone ? .left : .converged
    }

    /// The stages that can be waited for. Raw values are on the wire.
    package enum Stage: String, Sendable, CaseIterable {
        case sent, received, fetched, active

        /// Whether the stage is counted by clients, of which only those with an id are known.
        package var isOfClients: Bool { self == .fetched || self == .active }
    }

    /// Fewer than half of the streams say who they are: what clients do tells little.
    package var isMostlyAnonymous: Bool { clients.unidentifiedStreams * 2 > streams.streams }
}
