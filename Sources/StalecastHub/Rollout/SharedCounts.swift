package import StalecastWire

/// Counts that the nodes of a cluster tell each other, as an array of numbers, and add up.
package protocol SharedCounts {
    /// Fields in the order of the array. A newer program appends its own: an older one ignores them, and a newer one takes
    /// those that are missing for 0.
    static var counts: [any WritableKeyPath<Self, Int> & Sendable] { get }
    /// Fields that every program writes; an array with fewer is not read.
    static var leastCounts: Int { get }

    init()
}

extension SharedCounts {
    package static func + (a: Self, b: Self) -> Self {
        counts.reduce(into: a) { $0[keyPath: $1] += b[keyPath: $1] }
    }

    /// Record for other nodes.
    package var shared: JSONValue { .array(Self.counts.map { .int(self[keyPath: $0]) }) }

    /// nil for what ``shared`` did not make.
    package init?(shared value: JSONValue) {
        // Clamped: another program may write any number, and sums must not overflow.
        let counts = (value.array ?? []).map { Int(clamping: min(max($0.int64 ?? 0, 0), 1 << 32)) }
        guard counts.count >= Self.leastCounts else { return nil }
        self.init()
        for (field, count) in zip(Self.counts, counts) { self[keyPath: field] = count }
    }
}
