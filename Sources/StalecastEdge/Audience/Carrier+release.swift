import StalecastHub
import StalecastWire

/// A release splits a scope's topics into one for each stage: members move once, and no fan-out asks for a stage.
extension Carrier {
    func split(_ scope: Scope, as board: TopicBoard) {
        releaseDoomed()
        let former = self.board.seats(of: scope)
        // A turn that is waited for is one among the members of before.
        for topic in former { endPacing(topic) }
        let moved = audience.split(scope, former, as: board)
        if let version = board.versionOfSplit(of: scope) {
            for (keys, seats) in moved { hub.propagation.moved(keys, to: Set(seats), in: scope, by: version) }
        }
        guard hub.releases.isOpen else { return }
        let streams = audience.members.streams(of: self.board.seats(of: scope)).map(\.index)
        for (seat, addresses) in audience.addresses(of: streams) where seat.scope == scope {
            hub.releases.began(seat, addresses)
        }
    }

    // MARK: Gates

    /// A stream began; it is in its topics.
    func tellBegin(_ index: Int32) {
        for (seat, addresses) in audience.addresses(of: [index]) { hub.releases.began(seat, addresses) }
    }

    /// A stream ends; it is still in its topics.
    func tellEnd(_ index: Int32, _ reason: DropReason?) {
        guard slots[index].pointee.phase != .poll, let reason else { return }
        for seat in audience.addresses(of: [index]).keys {
            hub.releases.ended(seat, slots[index].pointee.client.address, reason.cause)
        }
    }

    /// Reports the streams of newly told stages, before the fan-out. A stream of several topics counts once.
    func tellStages(_ run: [TopicBoard.Announcement]) {
        for newly in run.map(board.newlyTold) where !newly.isEmpty {
            let streams = audience.members.streams(of: newly.map(\.topic))
            for (topic, seat) in newly {
                let own = streams.filter { $0.topic == topic }
                hub.releases.told(seat, own.map { slots[$0.index].pointee.client.address })
            }
        }
    }
}

extension Audience {
    /// Moves a scope's members to the topics of their stages.
    ///
    /// - Returns: keys of the clients that moved, and where to.
    fileprivate mutating func split(
        _ scope: Scope, _ former: [Topic.Index], as board: TopicBoard
    ) -> [(keys: [UInt64], seats: [Topic.Index])] {
        takeTopics(of: board)
        reach.rollouts.split(scope, on: self.board)
        var moved: [([UInt64], [Topic.Index])] = []
        for index in members.all(of: former) {
            let topics = topics(of: index)
            let seats = self.board.seats(of: topics, for: ClientKey(rawValue: slots[index].pointee.client.key))
            guard seats != topics else { continue }
            unsubscribe(index)
            subscribe(index, to: seats)
            if let keys = reach.identities[index] { moved.append((keys, seats)) }
        }
        pacing.split(former, into: self.board.seats(of: scope).filter { self.board[$0].isInvalidation })
        return moved
    }

    /// Addresses of streams by their places in releases.
    fileprivate func addresses(of streams: [Int32]) -> [ReleaseSeat: [UInt64]] {
        var addresses: [ReleaseSeat: [UInt64]] = [:]
        for index in streams {
            for seat in board.releaseSeats(of: topics(of: index)) {
                addresses[seat, default: []].append(slots[index].pointee.client.address)
            }
        }
        return addresses
    }
}
