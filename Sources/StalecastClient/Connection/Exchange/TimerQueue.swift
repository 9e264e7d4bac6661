/// Actions by the time they are due: a binary heap, from which cancelled ones are dropped when they come up.
package struct TimerQueue {
    package typealias Action = @Sendable () -> Void

    private struct Entry {
        let deadline: UInt64
        let id: Int
    }

    private var heap: [Entry] = []
    private var actions: [Int: Action] = [:]
    private var lastID = 0

    package init() {}

    /// The earliest deadline, in nanoseconds of the caller's clock; nil when nothing is due ever.
    package var nextDeadline: UInt64? {
        mutating get {
            while let first = heap.first, actions[first.id] == nil { removeFirst() }
            return heap.first?.deadline
        }
    }

    /// - Returns: what ``cancel(_:)`` wants.
    package mutating func add(at deadline: UInt64, _ action: @escaping Action) -> Int {
        lastID += 1
        actions[lastID] = action
        heap.append(Entry(deadline: deadline, id: lastID))
        var child = heap.count - 1
        while child > 0, heap[child].deadline < heap[(child - 1) / 2].deadline {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
        return lastID
    }

    package mutating func cancel(_ id: Int) { actions[id] = nil }

    /// Takes the first action that is due at `now`; nil when none is.
    package mutating func next(at now: UInt64) -> Action? {
        while let first = heap.first, first.deadline <= now {
            removeFirst()
            if let action = actions.removeValue(forKey: first.id) { return action }
        }
        return nil
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            let children = (2 * parent + 1..<2 * parent + 3).filter { $0 < heap.count }
            guard let least = children.min(by: { heap[$0].deadline < heap[$1].deadline }),
                heap[least].deadline < heap[parent].deadline
            else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
