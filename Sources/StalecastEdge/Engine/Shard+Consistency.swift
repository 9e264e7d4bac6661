import Glibc
import StalecastHub

extension Shard {
    /// Contradictions in the shard's books, as sentences; empty when all agree. For tests, between events: slots,
    /// member lists, backlogs, wheel and gauges say the same about every connection.
    func inconsistencies() -> [String] {
        var problems: [String] = []
        var (used, streams, polls, joined, behind) = (0, 0, 0, 0, 0)
        for index in 0..<slots.end {
            let slot = slots[index].pointee
            guard slot.phase != .free else {
                let isClean = slot.due == 0 && slot.topic == StreamSlot.none && slot.fd < 0 && slot.isPlain
                if !isClean { problems.append("slot \(index) is free and in use") }
                continue
            }
            used += 1
            if slot.phase == .doomed { problems.append("slot \(index) is doomed between events") }
            if slot.phase != .head, isTLS == slot.isPlain { problems.append("slot \(index) and its TLS disagree") }
            if slot.phase == .direct, !slot.isOrdinary { problems.append("slot \(index) is written past its TLS") }
            if case .records = slot.cover, slot.phase != .stream { problems.append("slot \(index) is no stream") }
            if fcntl(slot.fd, F_GETFD) < 0 { problems.append("slot \(index) has no descriptor") }
            if !wheel.holds(index, in: slots) { problems.append("slot \(index) in phase \(slot.phase) has no timer") }
            switch slot.phase {
            case .direct, .stream: streams += 1
            case .poll: polls += 1
            default: if slot.topic != StreamSlot.none { problems.append("slot \(index) has topics, but no stream") }
            }
            if slot.topic == StreamSlot.none, slot.phase == .direct || slot.phase == .stream || slot.phase == .poll {
                problems.append("slot \(index) in phase \(slot.phase) has no topic")
            }
            if slot.hasBacklog != (backlogs[index] != nil), slot.phase != .answering {
                problems.append("slot \(index) and the backlogs disagree")
            }
            if let waiting = unreached[index] {
                let topic = Topic.Index(rawValue: slot.topic)
                let isDue = slot.topic >= 0 && fanOuts[topic]?.rest.contains(index) ?? false
                if !slot.isInvalidation || !isDue {
                    problems.append("slot \(index) waits for \(waiting) without a turn")
                }
            }
            if slot.hasBacklog || slot.phase == .answering { behind += 1 }
            joined += memberships(of: index, slot, &problems)
        }
        func compare(_ what: String, _ counted: Int, _ said: Int) {
            if counted != said { problems.append("\(what): \(counted) counted, \(said) in the books") }
        }
        compare("connections", used, slots.used)
        compare("streams", streams, tally.streams)
        compare("polls", polls, tally.polls)
        compare("memberships", members.reduce(0) { $0 + $1.count }, joined)
        compare("backlogs", behind, backlogs.count)
        compare("doomed", 0, doomed.count)
        for index in holds.keys where slots[index].pointee.topic == StreamSlot.none {
            problems.append("slot \(index) holds a principal and has no topic")
        }
        return problems
    }

    /// Counts the topics that a slot is in; each must know it at the place the slot says.
    private func memberships(of index: Int32, _ slot: StreamSlot, _ problems: inout [String]) -> Int {
        var places: [(Topic.Index, Int32)] = []
        if slot.topic >= 0 { places = [(Topic.Index(rawValue: slot.topic), slot.position)] }
        if let joined = several[index] { places += zip(joined.topics, joined.positions) }
        if (several[index] != nil) != (slot.topic == StreamSlot.several) {
            problems.append("slot \(index) and the table of several topics disagree")
        }
        for (topic, place) in places {
            let list = members[Int(topic.rawValue)]
            if !list.indices.contains(Int(place)) || list[Int(place)] != index {
                problems.append("slot \(index) is not where it says among the members of \(board[topic].name)")
            }
        }
        return places.count
    }
}
