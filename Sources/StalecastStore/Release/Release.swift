package import StalecastWire

/// A version that reaches its clients in stages: where it stands, and what may happen next. A pure value: callers bring
/// the time and the sequence of each commit.
///  Times are of the wall clock, so that a release goes on after a restart: time in which no process ran counts, but
/// only for one step, since each step begins a time of its own. A clock that was put back makes the next step later,
/// never earlier. A clock that jumps forward makes the next step earlier by the jump; no record can tell that from
/// elapsed time.
package struct Release: Sendable, Hashable {
    /// Raw values are on the wire and in the database.
    package enum State: String, Sendable, CaseIterable {
        /// Committed, but no client is told of it yet.
        case pending = "PENDING"
        case ramping = "RAMPING"
        case paused = "PAUSED"
        /// All clients have the version; it can still be rolled back.
        case baking = "BAKING"
        case released = "RELEASED"
        case rolledBack = "ROLLED_BACK"
        case superseded = "SUPERSEDED"
    }

    /// Stage that a commit has brought.
    package struct Reached: Sendable, Hashable {
        /// Upper end of its buckets, 1 to 10,000.
        package let stage: Int
        package let sequence: CommitSequence
        package let at: Timestamp

        package init(stage: Int, sequence: CommitSequence, at: Timestamp) {
            (self.stage, self.sequence, self.at) = (stage, sequence, at)
        }
    }

    /// Step that is due.
    package enum Step: Sendable, Hashable { case advance, finish }

    package let scope: Scope
    package let version: VersionNumber
    /// Version of the clients that are not told yet; 0 is an empty scope.
    package let base: VersionNumber
    package let policy: ReleasePolicy
    package var state = State.pending
    /// Ascending in stage and sequence. After a rollback it tells which buckets to tell of that.
    package var reached: [Reached] = []
    /// Oldest first, at most ``maxEvents``.
    package internal(set) var events: [Event] = []
    /// Begin of the time of this stage: when it was reached, or when an operator resumed it; nil before the first.
    package var since: Timestamp?
    /// Version that rolled this one back or superseded it.
    package internal(set) var successor: VersionNumber?

    package init(scope: Scope, version: VersionNumber, base: VersionNumber, policy: ReleasePolicy) {
        (self.scope, self.version, self.base, self.policy) = (scope, version, base, policy)
    }

    package var isOpen: Bool {
        switch state {
        case .pending, .ramping, .paused, .baking: true
        case .released, .rolledBack, .superseded: false
        }
    }

    /// Buckets below this were told of the version, also after its end.
    package var told: Int { reached.last?.stage ?? 0 }

    /// Buckets below this get the version now. A pause does not change it.
    package var covered: Int { isOpen || state == .released ? told : 0 }

    /// Moment of the next step without an operator; nil: there is none.
    package var nextStepAt: Timestamp? {
        switch state {
        case .ramping where policy.every > .zero: since?.advanced(by: policy.every)
        case .baking: since?.advanced(by: policy.bake)
        default: nil
        }
    }

    /// Step whose time has come; nil while there is none.
    package func due(at now: Timestamp) -> Step? {
        guard let nextStepAt, now >= nextStepAt else { return nil }
        return state == .baking ? .finish : .advance
    }
}

extension Release {
    /// Entry of the log that operators read.
    package struct Event: Sendable, Hashable {
        /// Raw values are on the wire and in the database.
        package enum Kind: String, Sendable, CaseIterable {
            case began = "BEGAN"
            case advanced = "ADVANCED"
            case paused = "PAUSED"
            case resumed = "RESUMED"
            case promoted = "PROMOTED"
            case released = "RELEASED"
            case rolledBack = "ROLLED_BACK"
            case superseded = "SUPERSEDED"
        }

        package let at: Timestamp
        /// Principal as in the audit log, ``Release/schedule``, or a gate's name such as `gate:loss`.
        package let by: String
        package let kind: Kind
        /// Told buckets after the event, in basis points.
        package let stage: Int
        package let reason: String?
        /// Figures on which a gate decided.
        package let figures: JSONValue?
    }

    package static let maxEvents = 100
    /// Longer reasons are cut, in Unicode scalars: an alert's whole text may be one.
    package static let maxReason = 1000
    /// Author of what happens because its time has come.
    package static let schedule = "schedule"
}
