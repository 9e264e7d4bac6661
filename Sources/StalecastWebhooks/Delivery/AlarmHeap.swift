/// When targets are to be looked at again, earliest first; an entry is void when its target has a newer one.
struct AlarmHeap {
    private var entries: [(time: UInt64, number: UInt64, target: Target)] = []
    private var counter: UInt64 = 0

    /// The earliest time; void entries count.
    var next: UInt64? { entries.first?.time }
    var count: Int { entries.count }

    /// An earlier alarm stays: whoever it wakes looks at the target anew.
    mutating func set(_ target: Target, at time: UInt64) {
        guard target.alarm == 0 || time < target.alarmTime else { return }
        counter += 1
        target.alarm = counter
        target.alarmTime = time
        entries.append((time, counter, target))
        var index = entries.count - 1
        while index > 0, entries[index].time < entries[(index - 1) / 2].time {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Takes the first target that is due.
    mutating func takeDue(_ now: UInt64) -> Target? {
        while let first = entries.first, first.time <= now {
            removeFirst()
            guard first.target.alarm == first.number else { continue }
            first.target.alarm = 0
            return first.target
        }
        return nil
    }

    private mutating func removeFirst() {
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < entries.count && entries[child].time < entries[least].time { least = child }
            if least == index { return }
            entries.swapAt(index, least)
            index = least
        }
    }
}
