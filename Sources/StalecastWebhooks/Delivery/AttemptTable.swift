import DequeModule

/// Attempts under way. An id has the attempt's slot in its lower bits, so that none is looked up by hashing.
struct AttemptTable {
    private var slots: [DeliveryState.Attempt?] = []
    private var free: [Int] = []
    private var numbers: UInt64 = 0
    /// Attempts by their start, to see which are slow; some of them are over.
    private var starts: Deque<(id: UInt64, time: UInt64)> = []
    /// Attempts whose places were given to others.
    private var slow: Set<UInt64> = []

    private static let slotBits: UInt64 = 24

    /// Slot of an attempt; another attempt may have it later.
    static func slot(_ id: UInt64) -> Int { Int(id & (1 << slotBits - 1)) }

    var count: Int { slots.count - free.count }
    var all: some Sequence<DeliveryState.Attempt> { slots.lazy.compactMap(\.self) }

    subscript(id: UInt64) -> DeliveryState.Attempt? {
        guard slots.indices.contains(Self.slot(id)), let attempt = slots[Self.slot(id)] else { return nil }
        return attempt.id == id ? attempt : nil
    }

    /// Id for the attempt that is added next; never used again.
    mutating func nextID() -> UInt64 {
        if free.isEmpty {
            free.append(slots.count)
            slots.append(nil)
        }
        numbers += 1
        return numbers << Self.slotBits | UInt64(free[free.count - 1])
    }

    /// - Parameter attempt: has the last ``nextID()``.
    mutating func add(_ attempt: DeliveryState.Attempt) {
        slots[free.removeLast()] = attempt
        starts.append((attempt.id, attempt.started))
    }

    /// - Returns: the attempt, and whether its place was given to others; nil when it is not under way.
    mutating func remove(_ id: UInt64) -> (attempt: DeliveryState.Attempt, isSlow: Bool)? {
        guard let attempt = self[id] else { return nil }
        slots[Self.slot(id)] = nil
        free.append(Self.slot(id))
        // No id is hashed while no attempt is slow.
        return (attempt, !slow.isEmpty && slow.remove(id) != nil)
    }

    /// Start of the earliest attempt that still has its place, or of one that is over.
    var firstStart: UInt64? { starts.first?.time }

    /// Gives the places of attempts that began at `time` or before it to others, as far as `admission` lets it.
    mutating func giveUpPlaces(startedBy time: UInt64, _ admission: inout Admission) {
        while let first = starts.first {
            if let attempt = self[first.id] {
                guard first.time <= time, admission.giveUpPlace(attempt.place) else { return }
                slow.insert(first.id)
            }
            starts.removeFirst()
        }
    }
}
