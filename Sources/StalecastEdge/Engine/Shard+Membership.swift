import Glibc
import StalecastHub
import StalecastWire

extension Shard {
    /// Enters a slot into its topics' member lists.
    func subscribe(_ index: Int32, to topics: [Topic.Index]) {
        let slot = slots[index]
        if let hold = settings.access.hold(slot.pointee.principal) { holds[index] = hold }
        if topics.count == 1 {
            slot.pointee.topic = topics[0].rawValue
            slot.pointee.position = join(topics[0], index)
        } else {
            slot.pointee.topic = StreamSlot.several
            several[index] = SeveralTopics(topics: topics, positions: topics.map { join($0, index) })
        }
    }

    private func join(_ topic: Topic.Index, _ index: Int32) -> Int32 {
        members[Int(topic.rawValue)].append(index)
        return Int32(members[Int(topic.rawValue)].count - 1)
    }

    /// The topics of a subscribed slot.
    func topics(of index: Int32) -> [Topic.Index] {
        let topic = slots[index].pointee.topic
        if topic >= 0 { return [Topic.Index(rawValue: topic)] }
        return several[index]?.topics ?? []
    }

    func leaveTopics(_ index: Int32) {
        let slot = slots[index]
        if slot.pointee.topic >= 0 {
            removeMember(Topic.Index(rawValue: slot.pointee.topic), slot.pointee.position)
        } else if let joined = several.removeValue(forKey: index) {
            for (topic, position) in zip(joined.topics, joined.positions) { removeMember(topic, position) }
        }
        slot.pointee.topic = StreamSlot.none
        if !holds.isEmpty { holds[index] = nil }
    }

    /// Fills the gap with the last member, which learns its new place.
    private func removeMember(_ topic: Topic.Index, _ position: Int32) {
        let last = members[Int(topic.rawValue)].removeLast()
        guard Int(position) < members[Int(topic.rawValue)].count else { return }
        members[Int(topic.rawValue)][Int(position)] = last
        if slots[last].pointee.topic == StreamSlot.several {
            guard let place = several[last]?.topics.firstIndex(of: topic) else { return }
            several[last]?.positions[place] = position
        } else {
            slots[last].pointee.position = position
        }
    }

    /// Takes a stream or a held poll out of its topics and out of the gauges.
    func endSubscription(_ index: Int32) {
        let slot = slots[index]
        switch slot.pointee.phase {
        case .direct, .stream:
            tally.streams -= 1
            countUntold(index)
            if !unreached.isEmpty { unreached[index] = nil }
            forget(index, isPoll: false)
        case .poll:
            tally.polls -= 1
            for topic in topics(of: index) { heldPolls[Int(topic.rawValue)] -= 1 }
            forget(index, isPoll: true)
        default: return
        }
        leaveTopics(index)
        backlogs[index] = nil
        unknownTopics[index] = nil
        slot.pointee.hasBacklog = false
        slot.pointee.phase = .head
    }

    /// Closes a connection and frees its slot. Never called while a member list is walked: see ``doom(_:_:)``.
    func release(_ index: Int32, _ reason: DropReason?) {
        let slot = slots[index]
        guard slot.pointee.phase != .free else { return }
        if hub.releases.isOpen { tellEnd(index, reason) }
        letGo(of: slot, reason)
        endSubscription(index)
        if slot.pointee.phase == .answering { backlogs[index] = nil }
        wheel.remove(index, in: slots)
        close(slot.pointee.fd)
        ledger.leave(slot.pointee.address)
        if !proxies.isEmpty { proxies[index] = nil }
        if let reason { tally.drops[reason, default: 0] += 1 }
        slots.release(index)
    }

    /// Marks a connection for release after the fan-out that met it; until then it takes no more messages.
    func doom(_ index: Int32, _ reason: DropReason) {
        let slot = slots[index]
        guard slot.pointee.phase != .doomed, slot.pointee.phase != .free else { return }
        doomed.append((index, reason))
        tally.streams -= 1
        slot.pointee.phase = .doomed
    }

    func releaseDoomed() {
        while let (index, reason) = doomed.popLast() {
            if hub.releases.isOpen { tellEnd(index, reason) }
            countUntold(index)
            if !unreached.isEmpty { unreached[index] = nil }
            forget(index, isPoll: false)
            leaveTopics(index)
            backlogs[index] = nil
            release(index, reason)
        }
    }

    /// Subscribers by topic and transport.
    func presence() -> Presence {
        var presence = Presence()
        for (number, indexes) in members.enumerated() where !indexes.isEmpty {
            let (index, topic) = (Topic.Index(number), board[Topic.Index(number)])
            let polls = heldPolls[number]
            var (firstPolls, firsts) = (0, 0)
            for member in indexes where isFirst(index, of: member, named: topic.name) {
                if slots[member].pointee.phase == .poll { firstPolls += 1 } else { firsts += 1 }
            }
            presence.add(topic, .poll, members: polls, firsts: firstPolls)
            presence.add(
                topic, topic.isInvalidation ? .firebase : .sse, members: indexes.count - polls, firsts: firsts)
        }
        return presence
    }

    /// Whether a topic is the first of those with its name: the others are the same name in other namespaces.
    private func isFirst(_ topic: Topic.Index, of index: Int32, named name: TopicName) -> Bool {
        guard let joined = several[index] else { return true }
        return joined.topics.first { board[$0].name == name } == topic
    }

    /// Subscribers whose messages a scope's changes are, each once; and those of them that are Firebase's streams.
    func subscribersByScope() -> (all: [Scope: Int], firebase: [Scope: Int]) {
        var (counts, firebase): ([Scope: Int], [Scope: Int]) = ([:], [:])
        for (number, indexes) in members.enumerated() where !indexes.isEmpty {
            let topic = board[Topic.Index(number)]
            counts[topic.scope, default: 0] += indexes.count
            if topic.isInvalidation { firebase[topic.scope, default: 0] += indexes.count }
        }
        for joined in several.values {
            let scopes = joined.topics.map { board[$0].scope }
            for scope in Set(scopes) { counts[scope, default: 0] -= scopes.count { $0 == scope } - 1 }
        }
        return (counts, firebase)
    }

    /// Takes new bindings; subscribers of topics that are gone are ended.
    func rebind(to board: TopicBoard) {
        releaseDoomed()
        self.board.takeTopics(of: board)
        cache.removeAll()
        growMembers()
        for (topic, state) in board.topics.enumerated() where state.isRetired {
            for index in members[topic] { end(index, .topicRetired) }
        }
    }
}
