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
    func through(_ sequence: CommitSequence) -> [CommitSequence] { Array(items.prefix { $0 <= sequence }) }

    mutating func insert(_ sequence: CommitSequence) {
        if !contains(sequence) { items.insert(sequence, at: index(of: sequence)) }
    }

    /// - Parameter others: ascending, none of which is here.
    mutating func merge(_ others: [CommitSequence]) {
        let isBehind = items.last ?? 0 < others.first ?? 0
        items.append(contentsOf: others)
        if !isBehind { items.sort() }
    }

    mutating func remove(_ sequence: CommitSequence) {
        if contains(sequence) { items.remove(at: index(of: sequence)) }
    }

    private func index(of sequence: CommitSequence) -> Int {
        if let first = items.first, sequence <= first { return 0 }
        var (low, high) = (0, items.count)
        while low < high {
            let middle = (low + high) / 2
            if items[middle] < sequence { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
