import DequeModule
package import StalecastWire

/// Sequences in ascending order, each once; quick at both ends.
package struct SequenceSet: Sendable {
    private var items: Deque<CommitSequence>

    package init(_ items: some Sequence<CommitSequence> = []) { self.items = Deque(Set(items).sorted()) }

    package var isEmpty: Bool { items.isEmpty }
    var first: CommitSequence? { items.first }

    package func contains(_ sequence: CommitSequence) -> Bool {
        let index = index(of: sequence)
        return index < items.count && items[index] == sequence
    }

    func first(where isWanted: (CommitSequence) -> Bool) -> CommitSequence? { items.first(where: isWanted) }

    mutating func insert(_ sequence: CommitSequence) {
        if !contains(sequence) { items.insert(sequence, at: index(of: sequence)) }
    }

    /// - Parameter others: ascending, none of which is here.
    mutating func merge(_ others: [CommitSequence]) {
        let isBehind = items.last ?? 0 < others.first ?? 0
        items.append(contentsOf: others)
        if !isBehind { items.sort() }
    }

    /// - Returns: false when it was not there.
    @discardableResult mutating func remove(_ sequence: CommitSequence) -> Bool {
        guard contains(sequence) else { return false }
        items.remove(at: index(of: sequence))
        return true
    }

    /// Removes all up to and including `sequence`; returns them.
    mutating func remove(through sequence: CommitSequence) -> [CommitSequence] {
        let removed = Array(items.prefix { $0 <= sequence })
        items.removeFirst(removed.count)
        return removed
    }

    private func index(of sequence: CommitSequence) -> Int {
        if let first = items.first, sequence <= first { return 0 }
        return items.prefixCount(while: { $0 < sequence })
    }
}

extension RandomAccessCollection where Index == Int {
    /// Number of elements at the front that `isBefore` is true of; it is false of all that follow.
    func prefixCount(while isBefore: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isBefore(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
