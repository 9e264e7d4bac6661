import CLinux
import StalecastHub
import StalecastWire

/// Paced fan-outs: see ``PacedFanOut``. Streams of other kinds know nothing of them.
extension Shard {
    /// Begins to tell a hidden topic's streams one after the other, where the change asks for that; ends the fan-out
    /// that it supersedes.
    ///
    /// - Returns: false where all are to be told now.
    func pace(_ topic: Topic.Index, _ announcement: TopicBoard.Announcement) -> Bool {
        guard board[topic].isInvalidation else { return false }
        let rest = fanOuts.removeValue(forKey: topic)?.rest.filter { unreached[$0] != nil } ?? []
        tally.coalesced += rest.count
        guard announcement.pacedOverMs > 0 else {
            reachedAtOnce += rest
            return false
        }
        var others: [Int32] = []
        let since = heldSince[topic] ?? announcement.change.sequence
        for index in members[Int(topic.rawValue)] {
            if slots[index].pointee.hasBacklog {
                leaveToBacklog(index, since: unreached.removeValue(forKey: index) ?? since)
            } else if unreached[index] == nil {
                unreached[index] = since
                others.append(index)
            }
        }
        fanOutTurn += 1
        fanOuts[topic] = PacedFanOut(announcement, first: rest, others: others, turn: fanOutTurn, at: nowMs)
        return true
    }

    /// Leaves a stream that reads too slowly to its backlog: it gets the newest message when it reads again.
    private func leaveToBacklog(_ index: Int32, since: CommitSequence) {
        backlogs[index]?.deferred += 1
        let before = backlogs[index]?.unsentSince ?? since
        backlogs[index]?.unsentSince = min(before, since)
    }

    /// Each tick: tells those whose turn it is. What is held back for the topic supersedes all of it, so it waits for
    /// that.
    func advanceFanOuts() {
        for topic in fanOuts.keys where heldBack[topic] == nil {
            guard let turn = fanOuts[topic]?.due(at: nowMs), let announcement = fanOuts[topic]?.announcement,
                let encodedMessage = announcement.encodedMessages.first(where: { $0.topic == topic })?.encodedMessage
            else { continue }
            for index in turn { tell(index, encodedMessage, announcement.change.sequence) }
            if !turn.isEmpty { saidMore(topic) }
            guard fanOuts[topic]?.isOver == true else { continue }
            fanOuts[topic] = nil
            saidMore(topic)
            let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
            rollouts.fannedOut(announcement.change, nanoseconds: elapsed)
        }
        releaseDoomed()
    }

    func tell(_ index: Int32, _ encodedMessage: EncodedMessage, _ sequence: CommitSequence) {
        // A stream that left is no longer among them, even if another one has its slot by now.
        guard let since = unreached[index] else { return }
        rollouts.hasNews = true
        guard !slots[index].pointee.hasBacklog else {
            unreached[index] = nil
            return leaveToBacklog(index, since: since)
        }
        out.removeAll(keepingCapacity: true)
        slots[index].pointee.dialect.append([encodedMessage], to: &out)
        tally.deliveries[.firebase, default: 0] += 1
        write(out, to: index, through: sequence)
        // The doomed count as untold when they are released.
        guard slots[index].pointee.phase != .doomed else { return }
        unreached[index] = nil
        if slots[index].pointee.hasBacklog { backlogs[index]?.unsentSince = since }
    }

    /// Sequence before that of a stream that an emptied backlog has just sent the newest message, before its turn.
    func reachedByBacklog(_ index: Int32) -> CommitSequence? {
        unreached.isEmpty ? nil : unreached.removeValue(forKey: index)
    }

    /// After a fan-out at once: those of the superseded one have been told, or are among the backlogs.
    func forgetReached() {
        for index in reachedAtOnce { unreached[index] = nil }
        reachedAtOnce.removeAll()
    }

    /// Number of streams of a version's audience that wait for their turn.
    func unreached(of version: LoopRollouts.Version, but held: [Topic.Index]) -> Int {
        unreached.count { index, since in
            since <= version.sequence && !slots[index].pointee.hasBacklog && hears(index, version.topics)
                && !hears(index, held)
        }
    }
}
