import CLinux
import StalecastHub
import StalecastWire

/// A release splits a scope's topics into one for each stage: members move once, and no fan-out asks for a stage.
extension Shard {
    /// Moves a scope's members to the topics of their stages.
    func split(_ scope: Scope, as board: TopicBoard) {
        releaseDoomed()
        let former = self.board.seats(of: scope)
        // A turn that is waited for is one among the members of before.
        for topic in former { endPacing(topic) }
        self.board.takeTopics(of: board)
        growMembers()
        rollouts.split(scope, on: self.board)
        for index in Set(former.flatMap { members[Int($0.rawValue)] }) { moveToStage(index) }
        let (until, echo) = (former.compactMap { pacedUntil[$0] }.max(), former.compactMap { echoes[$0] }.first)
        for topic in self.board.seats(of: scope) where self.board[topic].isInvalidation {
            pacedUntil[topic] = until
            echoes[topic] = echo
        }
        if hub.releases.isOpen { tellStreams(of: scope) }
    }

    private func moveToStage(_ index: Int32) {
        let slot = slots[index]
        let topics = topics(of: index)
        let seats = board.seats(of: topics, for: ClientKey(rawValue: slot.pointee.clientKey))
        guard seats != topics else { return }
        let isPoll = slot.pointee.phase == .poll
        if isPoll { for topic in topics { heldPolls[Int(topic.rawValue)] -= 1 } }
        leaveTopics(index)
        subscribe(index, to: seats)
        if isPoll { for topic in seats { heldPolls[Int(topic.rawValue)] += 1 } }
        if let keys = identities[index] { hub.propagation.moved(keys, to: Set(seats)) }
    }

    /// Tells at once who waits for a turn, or for the end of a distance.
    private func endPacing(_ topic: Topic.Index) {
        flushPaced(topic)
        guard let fanOut = fanOuts.removeValue(forKey: topic),
            let encodedMessage = fanOut.announcement.encodedMessages.first(where: { $0.topic == topic })?.encodedMessage
        else { return }
        for index in fanOut.rest { tell(index, encodedMessage, fanOut.announcement.change.sequence) }
        saidMore(topic)
        rollouts.fannedOut(
            fanOut.announcement.change, nanoseconds: stalecast_monotonic_ns() &- fanOut.announcement.announcedAt)
        releaseDoomed()
    }

    // MARK: Gates

    /// Tells the gates of all streams that a release found here.
    private func tellStreams(of scope: Scope) {
        let indexes = Set(board.seats(of: scope).flatMap { members[Int($0.rawValue)] })
        var addresses: [ReleaseSeat: [UInt64]] = [:]
        for index in indexes where isStream(index) {
            for seat in board.releaseSeats(of: topics(of: index)) where seat.scope == scope {
                addresses[seat, default: []].append(slots[index].pointee.address)
            }
        }
        for (seat, addresses) in addresses { hub.releases.began(seat, addresses) }
    }

    private func isStream(_ index: Int32) -> Bool { [.direct, .stream].contains(slots[index].pointee.phase) }

    /// A stream began; it is in its topics.
    func tellBegin(_ index: Int32) {
        for seat in board.releaseSeats(of: topics(of: index)) {
            hub.releases.began(seat, [slots[index].pointee.address])
        }
    }

    /// A stream ends; it is still in its topics.
    func tellEnd(_ index: Int32, _ reason: DropReason?) {
        guard slots[index].pointee.phase != .poll, let reason else { return }
        for seat in board.releaseSeats(of: topics(of: index)) {
            hub.releases.ended(seat, slots[index].pointee.address, reason.cause)
        }
    }

    /// Before the stages of announcements are told.
    func tellStages(_ run: [TopicBoard.Announcement]) {
        for announcement in run {
            let newly = board.newlyTold(announcement)
            for (topic, seat) in newly {
                let own = members[Int(topic.rawValue)].filter { index in
                    // A stream of several topics is told once.
                    isStream(index)
                        && (several[index]?.topics.first { newly.map(\.topic).contains($0) } ?? topic) == topic
                }
                hub.releases.told(seat, own.map { slots[$0].pointee.address })
            }
        }
    }
}
