import NIOCore

/// A table whose oldest value gives way first, unless it was asked for since it was made or last spared (second chance):
/// values that only one client asks for do not drive out those that many do.
struct SecondChance<Key: Hashable, Value> {
    fileprivate struct Entry {
        let value: Value
        /// Whether the value was asked for since it was made, or since it was last spared.
        var isUsed = false
    }

    private var entries: [Key: Entry] = [:]
    /// Keys in the order in which their values were made, or spared.
    private var order = CircularBuffer<Key>()

    var count: Int { entries.count }
    var values: some Collection<Value> { entries.values.lazy.map(\.value) }

    func contains(_ key: Key) -> Bool { entries[key] != nil }

    /// Value of a key, which it spares once.
    mutating func value(of key: Key) -> Value? {
        // Through an index: the key is hashed once.
        guard let index = entries.index(forKey: key) else { return nil }
        if !entries.values[index].isUsed { entries.values[index].isUsed = true }
        return entries.values[index].value
    }

    mutating func keep(_ value: Value, of key: Key) {
        entries[key] = Entry(value: value)
        order.append(key)
    }

    /// Drops the oldest value that was not asked for since it was made or spared.
    mutating func dropOne() -> Value? {
        while let key = order.popFirst() {
            guard entries[key]?.isUsed == true else { return entries.removeValue(forKey: key)?.value }
            entries[key]?.isUsed = false
            order.append(key)
        }
        return nil
    }
}

extension SecondChance: Sendable where Key: Sendable, Value: Sendable {}
extension SecondChance.Entry: Sendable where Key: Sendable, Value: Sendable {}
