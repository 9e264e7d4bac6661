import StalecastWire

/// What one webhook is owed of one scope. Belongs to the engine's thread, like everything that schedules.
final class Lane {
    /// Whoever removes the webhook takes its lanes from it, which ends the cycle.
    let target: Target
    let scope: Scope
    /// Everything up to here is acknowledged.
    var acknowledged: (version: VersionNumber, sequence: CommitSequence)

    // MARK: Mode latest

    /// The newest change one of the webhook's topics announced, and that topic.
    var newest: Heard?
    /// The newest one is not tried any more: the receiver will not take it.
    var givenUp: CommitSequence = 0
    /// Sent again although acknowledged.
    var isWanted = false
    /// Attempts of the version that is being tried.
    var attempts: (sequence: CommitSequence, count: Int) = (0, 0)
    /// No attempt begins earlier, for ``WebhookLimits/minInterval``.
    var notBefore: UInt64 = 0

    // MARK: Modes all and fifo

    /// The oldest versions that are owed, in order; those after ``readThrough`` are still in the store.
    var owed: [Owed] = []
    var readThrough: CommitSequence = 0
    /// The version at ``readThrough``.
    var readVersion: VersionNumber = 0
    var isReading = false
    /// Acknowledged out of order, beyond ``acknowledged``.
    var beyond: Set<CommitSequence> = []

    var inFlight = 0

    /// As many owed versions are held in memory.
    static let window = 256

    init(_ target: Target, _ scope: Scope, acknowledged: (VersionNumber, CommitSequence)) {
        self.target = target
        self.scope = scope
        self.acknowledged = acknowledged
        (readVersion, readThrough) = acknowledged
    }

    /// True when the newest version is to be sent in mode `latest`.
    var owesNewest: Bool {
        guard let newest else { return false }
        return isWanted || newest.change.sequence > max(acknowledged.sequence, givenUp)
    }

    /// The versions the receiver has not acknowledged, at least.
    var lag: Int64 {
        guard let newest, newest.change.sequence > acknowledged.sequence else { return 0 }
        return max(1, newest.change.version - acknowledged.version)
    }
}

/// A change as a webhook hears of it.
struct Heard {
    let change: TemplateChange
    let topic: TopicName
    /// Monotonic; 0 for a change of a former run.
    let announcedAt: UInt64
}

/// One version that is owed in the modes `all` and `fifo`.
struct Owed {
    let heard: Heard
    /// Sent again on request: not part of the cursor.
    var isExtra = false
    var attempts = 0
    /// Of the first attempt, monotonic; 0 before.
    var firstAt: UInt64 = 0
    var notBefore: UInt64 = 0
    var isInFlight = false
}
