/// Queue of clients that may have gone, oldest first.
struct Departures {
    private var list: [(key: UInt64, at: UInt32)] = []
    private var head = 0

    mutating func append(_ key: UInt64, at time: UInt32) { list.append((key, time)) }

    /// Takes the first client that has been gone for longer than `absence`.
    mutating func next(at time: UInt32, after absence: UInt32) -> UInt64? {
        guard head < list.count, list[head].at + absence < time else {
            if head > 1024, head * 2 > list.count {
                list.removeFirst(head)
                head = 0
            }
            return nil
        }
        head += 1
        return list[head - 1].key
    }
}
