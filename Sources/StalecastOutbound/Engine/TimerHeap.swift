/// What is to be done when, earliest first; a cancelled entry stays until its time or until it is at the top.
struct TimerHeap {
    private struct Entry {
        let time: UInt64
        let number: UInt64
        let body: @Sendable () -> Void
    }

    private var entries: [Entry] = []
    private var pending: Set<UInt64> = []

    /// The earliest time, in nanoseconds of the monotonic clock; nil when there is nothing to do.
    mutating func next() -> UInt64? {
        dropCancelled()
        return entries.first?.time
    }

    mutating func add(_ time: UInt64, _ number: UInt64, _ body: @escaping @Sendable () -> Void) {
        pending.insert(number)
        entries.append(Entry(time: time, number: number, body: body))
        rise(entries.count - 1)
    }

    mutating func cancel(_ number: UInt64) { pending.remove(number) }

    /// Takes out the first entry that is due.
    mutating func takeDue(_ now: UInt64) -> (@Sendable () -> Void)? {
        dropCancelled()
        guard let first = entries.first, first.time <= now else { return nil }
        removeFirst()
        pending.remove(first.number)
        return first.body
    }

    private mutating func dropCancelled() {
        while let first = entries.first, !pending.contains(first.number) { removeFirst() }
    }

    private mutating func removeFirst() {
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        sink(0)
    }

    private mutating func rise(_ start: Int) {
        var index = start
        while index > 0, entries[index].time < entries[(index - 1) / 2].time {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while true {
            let left = index * 2 + 1
            var least = index
            if left < entries.count, entries[left].time < entries[least].time { least = left }
            if left + 1 < entries.count, entries[left + 1].time < entries[least].time { least = left + 1 }
            if least == index { return }
            entries.swapAt(index, least)
            index = least
        }
    }
}

/// What waits, first come first served.
struct WaitingLine<Element> {
    private var elements: [Element] = []
    private var first = 0

    var count: Int { elements.count - first }

    mutating func append(_ element: Element) { elements.append(element) }

    /// Nil when nobody waits.
    mutating func takeFirst() -> Element? {
        guard first < elements.count else { return nil }
        defer {
            first += 1
            if first > 1024 || first == elements.count {
                elements.removeFirst(first)
                first = 0
            }
        }
        return elements[first]
    }

    /// Nil when no such element waits here.
    mutating func removeFirst(where isMeant: (Element) -> Bool) -> Element? {
        elements[first...].firstIndex(where: isMeant).map { elements.remove(at: $0) }
    }
}
