/// The lanes of one scope, of which there is one for every webhook.
///
/// They are in the order of their webhooks' numbers, except those that came with a later change of topics.
extension [Lane] {
    /// Takes a lane out. Looks at few of the others as long as they are in order.
    mutating func drop(_ lane: Lane) {
        if let index = place(of: lane) ?? firstIndex(where: { $0 === lane }) { remove(at: index) }
    }

    /// Nil also when it is out of order.
    private func place(of lane: Lane) -> Int? {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].target.number < lane.target.number { low = middle + 1 } else { high = middle }
        }
        return low < endIndex && self[low] === lane ? low : nil
    }
}
