struct ReportedFailures {
    /// Version that failed, and why, by the client's key.
    private(set) var all: [UInt64: (version: UInt32, error: String)] = [:]
    /// Failures that clients of one address may have reported first within an hour: all of them together must not take
    /// the place of all others.
    private var new = AddressBudget(perAddress: 256, total: .max, period: 36_000)

    private static let most = 4096

    subscript(key: UInt64) -> (version: UInt32, error: String)? { all[key] }

    /// Takes a client's own word.
    ///
    /// - Parameter address: nil has no limit of its own.
    /// - Returns: false where there is no room for another client.
    mutating func report(
        _ version: UInt32, _ error: String, of key: UInt64, from address: UInt64?, at time: UInt32
    ) -> Bool {
        if all[key] == nil {
            guard all.count < Self.most, new.takes(address, at: time) else { return false }
        }
        all[key] = (version, error)
        return true
    }

    /// Takes a failure that a client reported to another node.
    ///
    /// - Parameter active: the version that the client runs.
    /// - Returns: whether this node knows a newer one.
    mutating func hear(_ version: UInt32, of key: UInt64, active: UInt32) -> Bool {
        let known = all[key]
        if let known, known.version > version { return true }
        if version > max(active, known?.version ?? 0), known != nil || all.count < Self.most {
            all[key] = (version, known?.error ?? "")
        }
        return false
    }

    /// Forgets a failure at a version that the client has passed.
    mutating func end(of key: UInt64, active: UInt32) {
        if let failure = all[key], failure.version <= active { all[key] = nil }
    }

    mutating func keep(_ isKept: (UInt64) -> Bool) { all = all.filter { isKept($0.key) } }
}
