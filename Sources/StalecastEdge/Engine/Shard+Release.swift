import CLinux
import StalecastHub
import StalecastWire

/// A release splits a scope's topics into one for each stage: members move once, and no walk asks for a stage.
extension Shard {
    /// Moves a scope's members to the topics of their stages.
    func split(_ scope: Scope, as board: TopicBoard) {
        releaseDoomed()
        let former = self.board.seats(of: scope)
        // A turn that is waited for is one among the members of before.
        for topic in former { endPacing(topic) }
        self.board.takeTopics(of: board)
        growMembers()
        spreads.split(scope, on: self.board)
        for index in Set(former.flatMap { members[Int($0.rawValue)] }) { moveToStage(index) }
        let (until, echo) = (former.compactMap { pacedUntil[$0] }.max(), former.compactMap { echoes[$0] }.first)
        for topic in self.board.seats(of: scope) where self.board[topic].isInvalidation {
            pacedUntil[topic] = until
            echoes[topic] = echo
        }
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
        guard let walk = walks.removeValue(forKey: topic),
            let notice = walk.announcement.notices.first(where: { $0.topic == topic })?.notice
        else { return }
        for index in walk.rest { tell(index, notice, walk.announcement.change.sequence) }
        saidMore(topic)
        spreads.walked(walk.announcement.change, nanoseconds: stalecast_monotonic_ns() &- walk.announcement.announcedAt)
        releaseDoomed()
    }
}
