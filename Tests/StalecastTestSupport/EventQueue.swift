/// Events to come, in the order of time, and of being said.
package struct EventQueue {
    private struct Event {
        let at: Duration
        let number: Int
        let happen: () -> Void

        static func < (a: Event, b: Event) -> Bool { a.at == b.at ? a.number < b.number : a.at < b.at }
    }

    private var heap: [Event] = []
    private var count = 0

    package init() {}

    package mutating func add(at time: Duration, _ happen: @escaping () -> Void) {
        count += 1
        heap.append(Event(at: time, number: count, happen: happen))
        var child = heap.count - 1
        while child > 0, heap[child] < heap[(child - 1) / 2] {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The next event, when it is not later than `end`.
    package mutating func next(until end: Duration) -> (at: Duration, happen: () -> Void)? {
        guard let first = heap.first, first.at <= end else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        return (first.at, first.happen)
    }

    private mutating func sink() {
        var parent = 0
        while true {
            let children = [2 * parent + 1, 2 * parent + 2].filter { $0 < heap.count }
            guard let least = children.min(by: { heap[$0] < heap[$1] }), heap[least] < heap[parent] else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
