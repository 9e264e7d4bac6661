import StalecastHub

extension Audience {
    /// Contradictions in the books, as sentences; empty when all agree. For tests, between events: slots, member lists,
    /// backlogs, wheel and gauges say the same about every connection.
    package func inconsistencies() -> [String] {
        var problems: [String] = []
        var (used, streams, polls, joined, behind) = (0, 0, 0, 0, 0)
        for index in 0..<slots.end {
            let slot = slots[index].pointee
            guard slot.phase != .free else {
                let isClean = slot.timer.due == 0 && slot.topic == StreamSlot.none && slot.fd < 0 && slot.isPlain
                if !isClean { problems.append("slot \(index) is free and in use") }
                continue
            }
            used += 1
            streams += slot.isStream ? 1 : 0
            polls += slot.phase == .poll ? 1 : 0
            behind += slot.hasBacklog || slot.phase == .answering ? 1 : 0
            joined += memberships(of: index, slot, &problems)
            problems += contradictions(index, slot)
        }
        func compare(_ what: String, _ counted: Int, _ said: Int) {
            if counted != said { problems.append("\(what): \(counted) counted, \(said) in the books") }
        }
        compare("connections", used, slots.used)
        compare("streams", streams, tally.streams)
        compare("polls", polls, tally.polls)
        compare("memberships", members.count, joined)
        compare("backlogs", behind, backlogs.count)
        compare("doomed", 0, doomed.count)
        if !heard.cover(members.scopes(on: board)) {
            problems.append("a scope has subscribers, and would not wake the loop")
        }
        for index in notes.holds.keys where slots[index].pointee.topic == StreamSlot.none {
            problems.append("slot \(index) holds a principal and has no topic")
        }
        return problems
    }

    private func contradictions(_ index: Int32, _ slot: StreamSlot) -> [String] {
        var problems: [String] = []
        if slot.phase == .doomed { problems.append("slot \(index) is doomed between events") }
        if !wheel.holds(index, in: slots) { problems.append("slot \(index) in phase \(slot.phase) has no timer") }
        if slot.isSubscriber != (slot.topic != StreamSlot.none) {
            problems.append("slot \(index) in phase \(slot.phase) has a topic, or has none")
        }
        if slot.hasBacklog != (backlogs[index] != nil), slot.phase != .answering {
            problems.append("slot \(index) and the backlogs disagree")
        }
        if let waiting = pacing.unreached[index] {
            let isDue = slot.topic >= 0 && pacing.isDue(index, on: Topic.Index(rawValue: slot.topic))
            if !slot.request.kind.isOfScope || !isDue {
                problems.append("slot \(index) waits for \(waiting) without a turn")
            }
        }
        return problems
    }

    /// Counts the topics that a slot is in; each must know it at the place the slot says.
    private func memberships(of index: Int32, _ slot: StreamSlot, _ problems: inout [String]) -> Int {
        var places: [(Topic.Index, Int32)] = []
        if slot.topic >= 0 { places = [(Topic.Index(rawValue: slot.topic), slot.position)] }
        if let joined = members.several[index] { places += zip(joined.topics, joined.positions) }
        if (members.several[index] != nil) != (slot.topic == StreamSlot.several) {
            problems.append("slot \(index) and the table of several topics disagree")
        }
        for (topic, place) in places {
            let list = members[topic]
            if !list.indices.contains(Int(place)) || list[Int(place)] != index {
                problems.append("slot \(index) is not where it says among the members of \(board[topic].name)")
            }
        }
        return places.count
    }
}
