package import StalecastHub
import StalecastWire

/// Members of each topic, by slot. A member's topic and place are kept in its slot, so that the fan-out reads only this
/// list.
package struct Members {
    private let slots: SlotTable
    private var lists: [[Int32]] = []
    /// Held polls among the members of each topic.
    private var polls: [Int] = []
    private(set) var several: [Int32: SeveralTopics] = [:]

    init(_ slots: SlotTable) { self.slots = slots }

    subscript(_ topic: Topic.Index) -> [Int32] { lists[Int(topic.rawValue)] }

    /// Memberships: a subscriber of two topics counts twice.
    var count: Int { lists.reduce(0) { $0 + $1.count } }

    mutating func grow(to count: Int) {
        while lists.count < count {
            lists.append([])
            polls.append(0)
        }
    }

    // MARK: Joining and leaving

    /// Enters a slot, whose phase says whether it is a poll.
    mutating func add(_ index: Int32, to topics: [Topic.Index]) {
        let slot = slots[index]
        if slot.pointee.phase == .poll { count(topics, 1) }
        if topics.count == 1 {
            slot.pointee.topic = topics[0].rawValue
            slot.pointee.position = join(topics[0], index)
        } else {
            slot.pointee.topic = StreamSlot.several
            several[index] = SeveralTopics(topics: topics, positions: topics.map { join($0, index) })
        }
    }

    private mutating func join(_ topic: Topic.Index, _ index: Int32) -> Int32 {
        lists[Int(topic.rawValue)].append(index)
        return Int32(lists[Int(topic.rawValue)].count - 1)
    }

    private mutating func count(_ topics: [Topic.Index], _ polls: Int) {
        for topic in topics { self.polls[Int(topic.rawValue)] += polls }
    }

    mutating func remove(_ index: Int32) {
        let slot = slots[index]
        if slot.pointee.phase == .poll { count(topics(of: index), -1) }
        if slot.pointee.topic >= 0 {
            remove(Topic.Index(rawValue: slot.pointee.topic), slot.pointee.position)
        } else if let joined = several.removeValue(forKey: index) {
            for (topic, position) in zip(joined.topics, joined.positions) { remove(topic, position) }
        }
        slot.pointee.topic = StreamSlot.none
    }

    /// Fills the gap with the last member, which learns its new place.
    private mutating func remove(_ topic: Topic.Index, _ position: Int32) {
        let last = lists[Int(topic.rawValue)].removeLast()
        guard Int(position) < lists[Int(topic.rawValue)].count else { return }
        lists[Int(topic.rawValue)][Int(position)] = last
        if slots[last].pointee.topic == StreamSlot.several {
            guard let place = several[last]?.topics.firstIndex(of: topic) else { return }
            several[last]?.positions[place] = position
        } else {
            slots[last].pointee.position = position
        }
    }

    // MARK: Members and topics

    func topics(of index: Int32) -> [Topic.Index] {
        let topic = slots[index].pointee.topic
        if topic >= 0 { return [Topic.Index(rawValue: topic)] }
        return several[index]?.topics ?? []
    }

    func hears(_ index: Int32, _ topics: [Topic.Index]) -> Bool {
        let topic = slots[index].pointee.topic
        if topic >= 0 { return topics.contains(Topic.Index(rawValue: topic)) }
        return several[index]?.topics.contains { topics.contains($0) } ?? false
    }

    /// True the first time an announcement meets a subscriber; with several topics it meets it once for each.
    mutating func isFirst(_ index: Int32, _ sequence: CommitSequence) -> Bool {
        guard slots[index].pointee.topic == StreamSlot.several else { return true }
        guard let handled = several[index]?.handled, handled < sequence else { return false }
        several[index]?.handled = sequence
        return true
    }

    /// Members of any of these topics, each once.
    func all(of topics: some Collection<Topic.Index>) -> [Int32] {
        topics.count == 1 ? self[topics[topics.startIndex]] : Array(Set(topics.flatMap { self[$0] }))
    }

    /// Streams among the members of these topics, each with the first of them that it is in.
    func streams(of topics: [Topic.Index]) -> [(index: Int32, topic: Topic.Index)] {
        topics.flatMap { topic in
            self[topic].filter { index in
                slots[index].pointee.isStream
                    && (several[index]?.topics.first(where: topics.contains) ?? topic) == topic
            }.map { ($0, topic) }
        }
    }

    // MARK: Counts

    /// Streams that hear one of these topics, each once.
    func streamCount(on topics: [Topic.Index]) -> Int {
        let heard = topics.reduce(0) { $0 + self[$1].count - polls[Int($1.rawValue)] }
        guard topics.count > 1, !several.isEmpty else { return heard }
        return several.reduce(heard) { sum, joined in
            guard slots[joined.key].pointee.phase != .poll else { return sum }
            return sum - max(0, joined.value.topics.count { topics.contains($0) } - 1)
        }
    }

    package func presence(on board: TopicBoard) -> Presence {
        var presence = Presence()
        for (number, indexes) in lists.enumerated() where !indexes.isEmpty {
            let (index, topic) = (Topic.Index(number), board[Topic.Index(number)])
            var (firstPolls, firsts) = (0, 0)
            for member in indexes where isFirst(index, of: member, named: topic.name, on: board) {
                if slots[member].pointee.phase == .poll { firstPolls += 1 } else { firsts += 1 }
            }
            presence.add(topic, .poll, members: polls[number], firsts: firstPolls)
            presence.add(
                topic, topic.isInvalidation ? .firebase : .sse, members: indexes.count - polls[number], firsts: firsts)
        }
        return presence
    }

    /// Whether a topic is the first of those with its name: the others are the same name in other namespaces.
    private func isFirst(_ topic: Topic.Index, of index: Int32, named name: TopicName, on board: TopicBoard) -> Bool {
        guard let joined = several[index] else { return true }
        return joined.topics.first { board[$0].name == name } == topic
    }

    func scopes(on board: TopicBoard) -> Set<Scope> {
        Set(lists.indices.lazy.filter { !self.lists[$0].isEmpty }.map { board[Topic.Index($0)].scope })
    }

    /// Subscribers whose messages a scope's changes are, each once; and those of them that are Firebase's streams.
    func byScope(on board: TopicBoard) -> (all: [Scope: Int], firebase: [Scope: Int]) {
        var (counts, firebase): ([Scope: Int], [Scope: Int]) = ([:], [:])
        for (number, indexes) in lists.enumerated() where !indexes.isEmpty {
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
}

struct SeveralTopics {
    let topics: [Topic.Index]
    /// Places in the topics' member lists, in the order of `topics`.
    var positions: [Int32]
    /// The last announcement handled, so that a second topic of it does not send again.
    var handled: CommitSequence = 0
}
