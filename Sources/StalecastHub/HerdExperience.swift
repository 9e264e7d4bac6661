package import StalecastWire

/// Lessons of a scope's newest versions about its herd: how many fetches follow a message, and what the budget is
/// worth. Pure: what was measured comes in, figures come out.
package struct HerdExperience: Sendable, Hashable {
    /// Fetches for each stream that was told, the newest versions counting most; nil while nothing was measured.
    package private(set) var fetchesPerStream: Double?
    /// Share of the configured budget; 1 until something happens.
    package private(set) var share = 1.0
    /// Answers of the versions that it is made of, oldest first.
    private var answers: [Int] = []
    private var last: CommitSequence = 0

    package init() {}

    /// Versions that count.
    private static let memory = 8
    /// Weight of the newest in a moving average over so many.
    private static let weight = 2 / Double(memory + 1)
    /// More than this are fetches of other clients.
    private static let mostFetches = 10.0
    /// Most answers, so that sums and doubles stay exact.
    private static let mostAnswers = 1 << 53
    private static let fall = 0.7
    private static let rise = 0.05
    private static let mostErrors = 0.01
    /// A 99th percentile of this many times the idle one is too slow.
    private static let slowness = 4.0
    /// Seconds; a shorter answer never is too slow.
    private static let quick = 0.025
    /// Fewer answers have no 99th percentile worth the name.
    private static let leastAnswers = 20

    package var fetches: Int { answers.reduce(0, +) }

    /// Requests per second the origin is asked for now.
    package func budget(of herd: HerdWindow) -> Int {
        let wanted = (Double(herd.budget) * share).rounded()
        return min(max(Int(min(wanted, 0x1p53)), herd.budgets.lowerBound), herd.budgets.upperBound)
    }

    /// Learns from a version, once: when its herd has had its time, or when the next version ends that.
    ///
    /// - Parameters:
    ///   - notified: streams and polls that were told of it.
    ///   - isOver: the next version comes; of a herd that has not had its time only what is too much counts.
    package mutating func learn(_ load: FetchLoad, notified: Int, of herd: HerdWindow, isOver: Bool, at now: UInt64) {
        let isWhole = load.isHerdOver(at: now)
        guard load.sequence > last, isWhole || isOver else { return }
        last = load.sequence
        let answered = load.herd.count
        if notified > 0, load.counted > 0 {
            let measured = min(Double(load.counted) / Double(notified), Self.mostFetches)
            if isWhole || measured > fetchesPerStream ?? 1 {
                fetchesPerStream = fetchesPerStream.map { $0 + Self.weight * (measured - $0) } ?? measured
                answers = answers.suffix(Self.memory - 1) + [min(load.counted, Self.mostAnswers)]
            }
        }
        if Self.isTrouble(load) {
            share = max(Double(budget(of: herd)) * Self.fall / Double(max(1, herd.budget)), Self.least(herd))
        } else if isWhole, answered > 0, load.fetchWindowMs > 0 {
            share = min(share + Self.rise, Double(herd.budgets.upperBound) / Double(max(1, herd.budget)))
        }
    }

    private static func least(_ herd: HerdWindow) -> Double {
        Double(herd.budgets.lowerBound) / Double(max(1, herd.budget))
    }

    private static func isTrouble(_ load: FetchLoad) -> Bool {
        let asked = load.herd.count + load.herdErrors
        if load.overloads > 0 || Double(load.herdErrors) > mostErrors * Double(asked) { return true }
        guard load.herd.count >= leastAnswers, let slow = load.herd.percentile(0.99) else { return false }
        let idle = load.idle.count >= leastAnswers ? load.idle.percentile(0.99) ?? 0 : 0
        return slow > slowness * max(idle, quick)
    }
}

/// The fetches of a scope since its newest version: those in the time that its herd was given, and those after it.
package struct FetchLoad: Sendable, Hashable {
    package let sequence: CommitSequence
    package let fetchWindowMs: Int
    /// Start in nanoseconds of the book's clock.
    package let startedAt: UInt64
    /// Times of answers within the herd's window, and of all versions outside of it.
    package private(set) var herd = Histogram()
    package private(set) var idle: Histogram
    /// Fetches in the herd's time that show how many come: those of clients that say who they are, and of each client
    /// at most ``mostOfOne``. One stranger that repeats its fetch must not make all others wait.
    package private(set) var counted = 0
    /// Refusals for no fault of the client's in the herd's time; of these the ones that ask for less.
    package private(set) var herdErrors = 0
    package private(set) var overloads = 0

    /// Firebase's SDKs wait up to so long before they fetch.
    private static let graceMs: UInt64 = 3000
    /// Fetches of one client that count for a version.
    static let mostOfOne: UInt8 = 2

    package init(
        _ sequence: CommitSequence, fetchWindowMs: Int, after load: FetchLoad? = nil, at startedAt: UInt64
    ) {
        (self.sequence, self.fetchWindowMs, self.startedAt) = (sequence, fetchWindowMs, startedAt)
        idle = load?.idle ?? Histogram()
    }

    package func isHerdOver(at now: UInt64) -> Bool {
        let nanoseconds = (UInt64(clamping: fetchWindowMs) + Self.graceMs).multipliedReportingOverflow(by: 1_000_000)
        return now > startedAt && now - startedAt > (nanoseconds.overflow ? .max : nanoseconds.partialValue)
    }

    /// - Parameter clients: that the answer counts for: 0 where it shows nothing, more than 1 where clients are sampled.
    package mutating func answered(in seconds: Double, counting clients: Int = 1, at now: UInt64) {
        if isHerdOver(at: now) { return idle.record(seconds: seconds) }
        herd.record(seconds: seconds)
        counted += clients
    }

    package mutating func refused(status: Int, at now: UInt64) {
        guard !isHerdOver(at: now) else { return }
        herdErrors += 1
        if status == 429 || status == 503 { overloads += 1 }
    }
}
