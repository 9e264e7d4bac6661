package import StalecastWire

/// Status of a scope's source, for `/status`, `/metrics`, `/readyz` and the CLI.
package struct SourceStatus: Sendable, Hashable {
    package let scope: Scope
    package let kind: SourceKind
    package let place: String
    /// Begin of the watch; monotonic, like the ages made of it.
    package let began: ContinuousClock.Instant

    /// End of the last poll, whatever it saw; nil before the first.
    package var lastPoll: Poll?
    /// The last look that showed the origin's content.
    package var lastSuccess: Poll?
    /// Time when the current version was made, by its origin's clock where that says, and its number; nil while there
    /// is none.
    package var lastChange: Timestamp?
    package var version: VersionNumber?
    /// Newest version number that the origin gave; nil when the origin has no numbers.
    package var originVersion: VersionNumber?

    /// nil while all is well.
    package var failing: Failing?
    /// Time of the next poll, unless an event triggers it before.
    package var nextPollAt: ContinuousClock.Instant?
    package var isPolling = false
    /// State of listening for changes; nil where the source only looks.
    package var listening: Listening?

    package var counts = Counts()

    package init(scope: Scope, kind: SourceKind, place: String, began: ContinuousClock.Instant = .now) {
        (self.scope, self.kind, self.place, self.began) = (scope, kind, place, began)
    }

    /// Time since the last successful poll of the origin, or since the start while none succeeded.
    package func age(at now: ContinuousClock.Instant) -> Duration { now - (lastSuccess?.at ?? began) }

    /// Present problem; nil while all is well.
    package var problem: OriginProblem? { failing?.problem }

    /// End of a poll, by the wall clock and by the monotonic one.
    package struct Poll: Sendable, Hashable {
        package let time: Timestamp
        package let at: ContinuousClock.Instant

        package init(_ time: Timestamp, at: ContinuousClock.Instant) { (self.time, self.at) = (time, at) }
    }

    /// Failed looks since the last good one.
    package struct Failing: Sendable, Hashable {
        package var problem: OriginProblem
        /// Time when this problem was first met.
        package var since: Timestamp
        package var count = 1
    }

    /// Counts of a source's events since the start.
    package struct Counts: Sendable, Hashable {
        package var polls = 0
        /// Looks that gave nothing, by reason.
        package var failed: [OriginProblem.Reason: Int] = [:]
        package var adopted = 0
        /// Requests to look now.
        package var triggers = 0
        /// Versions announced although the fence never saw them.
        package var fenceTimeouts = 0
        /// Versions that had to wait at the fence, and for how long together.
        package var fenced = 0
        package var fenceWait = Duration.zero
        /// Different problems met: a broken document counts once, however often it is looked at.
        package var problems = 0
    }

    /// Way in which a source hears of changes besides looking.
    package struct Listening: Sendable, Hashable {
        /// Changes are heard now, and looks may be seldom.
        package var isOpen: Bool
        /// Reason why changes are not heard; nil while they are heard, and where nothing is wrong.
        package var problem: String?
    }
}
