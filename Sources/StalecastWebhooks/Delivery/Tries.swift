import StalecastWire

/// One version that a lane has begun to send.
struct Try: Sendable {
    let heard: ScopeLog.Heard
    var attempts = 0
    /// Monotonic time of the first attempt; 0 before.
    var firstAt: UInt64 = 0
    var notBefore: UInt64 = 0
    /// The attempt under way.
    var attempt: UInt64?

    var sequence: CommitSequence { heard.sequence }
}

/// Versions of a lane that were begun and are not settled: under way, or waiting for the next attempt; ascending.
struct Tries: Sendable {
    private(set) var all: [Try] = []

    var isEmpty: Bool { all.isEmpty }
    var last: TemplateChange? { all.last?.heard.change }
    var inFlight: Int { all.count { $0.attempt != nil } }

    subscript(sequence: CommitSequence) -> Try? { index(of: sequence).map { all[$0] } }

    /// Waiting attempt that counts: in order the first, else the earliest.
    func soonest(_ mode: DeliveryMode) -> Try? {
        let waiting = all.lazy.filter { $0.attempt == nil }
        return mode == .all ? waiting.min { $0.notBefore < $1.notBefore } : waiting.first
    }

    func firstDue(at now: UInt64) -> Try? { all.first { $0.attempt == nil && $0.notBefore <= now } }

    /// - Returns: which attempt of that version it is, from 1, and whether it is the first since the version is here.
    mutating func begin(_ heard: ScopeLog.Heard, _ attempt: UInt64, at now: UInt64) -> (number: Int, isNew: Bool) {
        let index = all.firstIndex { $0.sequence >= heard.sequence } ?? all.count
        let isNew = index == all.count || all[index].sequence != heard.sequence
        if isNew { all.insert(Try(heard: heard), at: index) }
        all[index].attempts += 1
        if all[index].firstAt == 0 { all[index].firstAt = now }
        all[index].attempt = attempt
        return (all[index].attempts, isNew)
    }

    /// Takes back an attempt that never began or must be repeated: its version is due again at `time`.
    mutating func hold(_ sequence: CommitSequence, until time: UInt64) {
        guard let index = index(of: sequence) else { return }
        all[index].attempt = nil
        all[index].notBefore = time
    }

    /// - Returns: the version that is no longer here.
    @discardableResult mutating func remove(_ sequence: CommitSequence) -> TemplateChange? {
        index(of: sequence).map { all.remove(at: $0).heard.change }
    }

    /// Removes what is not under way.
    mutating func removeWaiting(where isUnwanted: (Try) -> Bool) {
        all.removeAll { $0.attempt == nil && isUnwanted($0) }
    }

    /// Makes attempts due that wait only because earlier ones failed.
    mutating func hurry() { for index in all.indices { all[index].notBefore = 0 } }

    private func index(of sequence: CommitSequence) -> Int? { all.firstIndex { $0.sequence == sequence } }
}
