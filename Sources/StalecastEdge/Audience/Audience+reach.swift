import StalecastHub
import StalecastWire

/// Progress of versions on a loop's streams, and the clients that say who they are.
struct Reach {
    var rollouts = LoopRollouts()
    /// Number of the loop in the hub's book.
    var loop = 0
    /// The last look at the acknowledgements of each scope's peers.
    var probes: [Scope: Probe] = [:]
    /// Streams and polls whose clients say who they are, by what the book knows these by.
    var identities: [Int32: [UInt64]] = [:]
    /// Doomed streams, each with the sequence of the first version that its socket took nothing of.
    var untold: [Int32: CommitSequence] = [:]

    /// Result of asking the kernel what the peers of a scope's newest version have acknowledged.
    struct Probe {
        let sequence: CommitSequence
        /// Streams whose peer had not acknowledged every byte.
        let unread: Int
        /// Monotonic time in nanoseconds when the kernel may be asked again.
        let nextAt: UInt64
    }
}

/// Counts the streams that were told of each version, beside the fan-out, which gains nothing by this. Before it the
/// members are counted; after it only those are looked at that did not take all of it.
extension Audience {
    /// Counts the members before an announcement's fan-out.
    mutating func beginCounting(_ announcement: TopicBoard.Announcement) {
        withRollouts { audience, rollouts in
            rollouts.begin(announcement, audience: { audience.members.streamCount(on: $0) }, waiting: audience.waiting)
        }
    }

    /// Notes, after an announcement's fan-out, the streams that did not take all of it.
    mutating func noteUnsent(_ announcement: TopicBoard.Announcement) {
        let sequence = announcement.change.sequence
        for entry in announcement.encodedMessages { pacing.noteHeld(entry.topic, sequence) }
        if backlogs.isEmpty, doomed.isEmpty { return }
        noteUnsent(announcement.encodedMessages.map(\.topic), sequence...sequence)
    }

    /// Notes streams that took less than all bytes: they have not got these versions yet; a dead one never will.
    mutating func noteUnsent(_ topics: [Topic.Index], _ range: ClosedRange<CommitSequence>) {
        let (members, unreached) = (members, pacing.unreached)
        func since(_ index: Int32) -> CommitSequence { min(range.lowerBound, unreached[index] ?? .max) }
        for (index, backlog) in backlogs where backlog.unsentSince == nil && members.hears(index, topics) {
            backlogs[index]?.unsentSince = since(index)
        }
        for (index, _) in doomed where members.hears(index, topics) {
            let first = since(index)
            reach.untold[index] = min(reach.untold[index] ?? .max, first)
            reach.rollouts.left(first...range.upperBound) { members.hears(index, $0) }
        }
    }

    /// A stream ends: of the versions that it was not told of it leaves the audience.
    ///
    /// - Returns: sequence of the first of these versions; nil where it was told of all.
    mutating func countUntold(_ index: Int32) -> CommitSequence? {
        let unreached = pacing.reached(index)
        guard !reach.rollouts.isEmpty else { return nil }
        let slot = slots[index].pointee
        let unsent = slot.hasBacklog ? backlogs[index]?.unsentSince : nil
        let held = slot.topic >= 0 ? pacing.heldSince(Topic.Index(rawValue: slot.topic)) : nil
        guard let since = [unsent, held, unreached].compactMap({ $0 }).min() else { return nil }
        let members = members
        reach.rollouts.left(since...(.max)) { members.hears(index, $0) }
        return since
    }

    /// A stream came after the versions that are under way.
    mutating func countJoined(_ index: Int32) {
        let members = members
        reach.rollouts.joined { members.hears(index, $0) }
    }

    /// Number of streams of a version's audience that wait for it.
    private func waiting(_ version: LoopRollouts.Version) -> Int {
        let held = version.topics.filter { pacing.heldSince($0).map { $0 <= version.sequence } ?? false }
        func waits(_ index: Int32, _ since: CommitSequence) -> Bool {
            since <= version.sequence && members.hears(index, version.topics) && !members.hears(index, held)
        }
        let stalled = backlogs.count { index, backlog in backlog.unsentSince.map { waits(index, $0) } ?? false }
        let turns = pacing.unreached.count { !slots[$0.key].pointee.hasBacklog && waits($0.key, $0.value) }
        return held.reduce(stalled + turns) { $0 + members[$1].count }
    }

    mutating func tellStreamCounts(_ book: RolloutTracker) {
        withRollouts { $1.tell(book, as: $0.reach.loop, waiting: $0.waiting) }
    }

    /// Takes the counts out, so that changing them copies nothing.
    private mutating func withRollouts(_ body: (Audience, inout LoopRollouts) -> Void) {
        var rollouts = reach.rollouts
        reach.rollouts = LoopRollouts()
        body(self, &rollouts)
        reach.rollouts = rollouts
    }

    /// Counts of a version of before this process: the streams that are here.
    func streamsHere(of scope: Scope) -> StreamCounts {
        var streamCounts = StreamCounts()
        let topics = board.concerned(by: scope)
        streamCounts.streams = members.streamCount(on: topics)
        streamCounts.backlogged = backlogs.keys.count { members.hears($0, topics) }
        return streamCounts
    }

    /// Streams of one of a version's topics that were told of it and are still here.
    func told(_ version: LoopRollouts.Version) -> [Int32] {
        let sequence = UInt32(truncatingIfNeeded: version.sequence)
        let topics = version.topics.filter { pacing.heldSince($0) == nil }
        return members.streams(of: topics).map(\.index).filter { index in
            let slot = slots[index].pointee
            return !slot.hasBacklog && Int32(bitPattern: sequence &- slot.joined) > 0
                && pacing.unreached[index] ?? .max > version.sequence
        }
    }
}
