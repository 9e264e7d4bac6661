import DequeModule

/// Attempts under way.
struct AttemptTable {
    private var byID: [UInt64: DeliveryState.Attempt] = [:]
    /// Attempts by their start, to see which are slow; some of them are over.
    private var starts: Deque<(id: UInt64, time: UInt64)> = []
    /// Attempts whose places were given to others.
    private var slow: Set<UInt64> = []

    var count: Int { byID.count }
    var all: some Collection<DeliveryState.Attempt> { byID.values }

    subscript(id: UInt64) -> DeliveryState.Attempt? { byID[id] }

    mutating func add(_ attempt: DeliveryState.Attempt) {
        byID[attempt.id] = attempt
        starts.append((attempt.id, attempt.started))
    }

    /// - Returns: the attempt, and whether its place was given to others; nil when it is not under way.
    mutating func remove(_ id: UInt64) -> (attempt: DeliveryState.Attempt, isSlow: Bool)? {
        guard let attempt = byID.removeValue(forKey: id) else { return nil }
        return (attempt, !slow.isEmpty && slow.remove(id) != nil)
    }

    /// Start of the earliest attempt that still has its place, or of one that is over.
    var firstStart: UInt64? { starts.first?.time }

    /// Gives the places of attempts that began at `time` or before it to others, as far as `admission` lets it.
    mutating func giveUpPlaces(startedBy time: UInt64, _ admission: inout Admission) {
        while let first = starts.first {
            if let attempt = byID[first.id] {
                guard first.time <= time, admission.giveUpPlace(attempt.place) else { return }
                slow.insert(first.id)
            }
            starts.removeFirst()
        }
    }
}
