import HeapModule

/// Tasks by their times, earliest first; a cancelled entry stays until its time or until it is at the top.
struct TimerHeap {
    private struct Entry: Comparable {
        let time: UInt64
        let number: UInt64
        let body: @Sendable () -> Void

        static func < (left: Entry, right: Entry) -> Bool { left.time < right.time }
        static func == (left: Entry, right: Entry) -> Bool { left.time == right.time }
    }

    private var entries: Heap<Entry> = []
    private var pending: Set<UInt64> = []

    /// The earliest time, in nanoseconds of the monotonic clock; nil when there is nothing to do.
    mutating func next() -> UInt64? {
        dropCancelled()
        return entries.min?.time
    }

    mutating func add(_ time: UInt64, _ number: UInt64, _ body: @escaping @Sendable () -> Void) {
        pending.insert(number)
        entries.insert(Entry(time: time, number: number, body: body))
    }

    mutating func cancel(_ number: UInt64) { pending.remove(number) }

    mutating func takeDue(_ now: UInt64) -> (@Sendable () -> Void)? {
        dropCancelled()
        guard let first = entries.min, first.time <= now else { return nil }
        entries.removeMin()
        pending.remove(first.number)
        return first.body
    }

    private mutating func dropCancelled() {
        while let first = entries.min, !pending.contains(first.number) { entries.removeMin() }
    }
}
