import CLinux
import StalecastHub
import StalecastWire

/// Counts the streams that were told of each version, beside the fan-out, which gains nothing by this. Before it the
/// members are counted; after it only those are looked at that did not take all of it.
extension Shard {
    // MARK: Streams

    /// Streams that hear one of these topics, each once.
    func streams(on topics: [Topic.Index]) -> Int {
        let heard = topics.reduce(0) { $0 + members[Int($1.rawValue)].count - heldPolls[Int($1.rawValue)] }
        guard topics.count > 1, !several.isEmpty else { return heard }
        return several.reduce(heard) { sum, joined in
            guard slots[joined.key].pointee.phase != .poll else { return sum }
            return sum - max(0, joined.value.topics.count { topics.contains($0) } - 1)
        }
    }

    func hears(_ index: Int32, _ topics: [Topic.Index]) -> Bool {
        let topic = slots[index].pointee.topic
        if topic >= 0 { return topics.contains(Topic.Index(rawValue: topic)) }
        return several[index]?.topics.contains { topics.contains($0) } ?? false
    }

    /// After the fan-out of an announcement.
    func noteUnsent(_ announcement: TopicBoard.Announcement) {
        let sequence = announcement.change.sequence
        let topics = announcement.encodedMessages.map(\.topic)
        for topic in topics where heldBack[topic] != nil && heldSince[topic] == nil { heldSince[topic] = sequence }
        noteUnsent(topics, sequence...sequence)
    }

    /// Notes streams that took less than all bytes: they have not got these versions yet; a dead one never will.
    func noteUnsent(_ topics: [Topic.Index], _ range: ClosedRange<CommitSequence>) {
        func since(_ index: Int32) -> CommitSequence { min(range.lowerBound, unreached[index] ?? .max) }
        for (index, backlog) in backlogs where backlog.unsentSince == nil && hears(index, topics) {
            backlogs[index]?.unsentSince = since(index)
        }
        for (index, _) in doomed where hears(index, topics) {
            rollouts.left(since(index)...range.upperBound) { hears(index, $0) }
        }
    }

    /// A stream ends: of the versions that it was not told of it leaves the audience.
    func countUntold(_ index: Int32) {
        guard !rollouts.isEmpty else { return }
        let slot = slots[index]
        var since = slot.pointee.hasBacklog ? backlogs[index]?.unsentSince : nil
        if slot.pointee.topic >= 0, let held = heldSince[Topic.Index(rawValue: slot.pointee.topic)] {
            since = min(since ?? held, held)
        }
        if let waiting = unreached[index] { since = min(since ?? waiting, waiting) }
        if let since { rollouts.left(since...(.max)) { hears(index, $0) } }
    }

    /// Number of streams of a version's audience that wait for it.
    private func waiting(_ version: LoopRollouts.Version) -> Int {
        let held = version.topics.filter { heldSince[$0].map { $0 <= version.sequence } ?? false }
        let stalled = backlogs.count { index, backlog in
            guard let since = backlog.unsentSince, since <= version.sequence else { return false }
            return hears(index, version.topics) && !hears(index, held)
        }
        let turns = unreached.isEmpty ? 0 : unreached(of: version, but: held)
        return held.reduce(stalled + turns) { $0 + members[Int($1.rawValue)].count }
    }

    func tellStreamCounts() { rollouts.tell(hub.propagation, as: loop, waiting: waiting) }

    /// Counts of the streams that have a scope's newest message. It is asked for behind the announcements that it is
    /// about; of a version of before this process, the streams that are here.
    func streamCounts(of scope: Scope) -> StreamCounts {
        guard let version = rollouts.versions[scope]?.last else {
            var streamCounts = StreamCounts()
            let topics = board.concerned(by: scope)
            streamCounts.streams = streams(on: topics)
            streamCounts.backlogged = backlogs.keys.count { hears($0, topics) }
            return streamCounts
        }
        tellStreamCounts()
        let streamCounts = rollouts.versions[scope]?.last?.streamCounts ?? version.streamCounts
        if streamCounts.received + streamCounts.receivedUnknown < streamCounts.told {
            probe(scope, version, told: streamCounts.told)
        }
        return rollouts.versions[scope]?.last?.streamCounts ?? StreamCounts()
    }

    /// Asks the kernel what peers have acknowledged, for no more than a twentieth of the time.
    private func probe(_ scope: Scope, _ version: LoopRollouts.Version, told: Int) {
        let began = stalecast_monotonic_ns()
        guard began >= probeAt else { return }
        let (received, present) = acknowledged(version)
        probeAt = began + 20 * (stalecast_monotonic_ns() - began)
        rollouts.received(received, unknown: max(0, told - present), of: scope)
        tellStreamCounts()
    }

    /// Streams that were told of a version and are still here: their number, and that of peers that have all bytes.
    private func acknowledged(_ version: LoopRollouts.Version) -> (received: Int, present: Int) {
        var (received, present) = (0, 0)
        let sequence = UInt32(truncatingIfNeeded: version.sequence)
        for topic in version.topics where heldSince[topic] == nil {
            for index in members[Int(topic.rawValue)] {
                let slot = slots[index]
                guard slot.pointee.phase == .direct || slot.pointee.phase == .stream, !slot.pointee.hasBacklog,
                    Int32(bitPattern: sequence &- slot.pointee.joined) > 0,
                    unreached.isEmpty || unreached[index] ?? .max > version.sequence
                else { continue }
                if let joined = several[index], joined.topics.first(where: version.topics.contains) != topic {
                    continue
                }
                present += 1
                if stalecast_unacknowledged(slot.pointee.fd) == 0 { received += 1 }
            }
        }
        return (received, present)
    }

    // MARK: Clients

    /// Tells the book whose stream or poll this is, if it says so.
    func identify(_ index: Int32, _ request: StreamRequest, _ topics: [Topic.Index]) {
        guard let client = request.client else { return }
        let address = slots[index].pointee.address
        identities[index] = hub.propagation.join(
            client, of: topics, on: board, from: request.resume, isPoll: request.kind == .poll,
            address: (address, !stalecast_is_loopback_key(address)))
    }

    func forget(_ index: Int32, isPoll: Bool) {
        guard !identities.isEmpty, let keys = identities.removeValue(forKey: index) else { return }
        hub.propagation.left(keys, isPoll: isPoll)
    }
}
