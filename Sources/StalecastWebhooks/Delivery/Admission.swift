/// Who may start next. Webhooks that answer have half of the places to themselves, so that those that are dead, slow or
/// still unknown cannot delay them.
struct Admission {
    enum Class: Int, CaseIterable {
        /// Answered last time.
        case healthy
        /// Not asked yet in this process: it may be dead, and takes a new connection.
        case unknown
        /// Failed last time.
        case failing
    }

    private(set) var queues = Class.allCases.map { _ in TargetQueue() }
    private(set) var underWay = Class.allCases.map { _ in 0 }
    /// Attempts that take so long that their places were given to others.
    private(set) var slow = 0
    private let places: Int
    private let limits: [Int]
    private let maxSlow: Int

    /// - Parameter places: attempts under way at once, the slow ones not counted.
    init(places: Int) {
        let quarter = max(1, places / 4)
        self.places = places
        // A few places are left to the others, however much the healthy have to do.
        limits = [max(1, places - max(1, places / 8)), min(64, quarter), quarter]
        maxSlow = 4 * places
    }

    static func lane(of target: Target) -> Class {
        target.failures > 0 ? .failing : target.isKnown ? .healthy : .unknown
    }

    /// False when no more attempts can be called slow.
    var hasRoomForSlow: Bool { slow < maxSlow }
    var waiting: Int { queues.reduce(0) { $0 + $1.count } }

    mutating func enqueue(_ target: Target) {
        guard !target.isQueued else { return }
        target.isQueued = true
        queues[Self.lane(of: target).rawValue].append(target)
    }

    /// The next target that has a place, out of its queue.
    mutating func next() -> (Target, Class)? {
        let used = underWay.reduce(0, +)
        guard used < places else { return nil }
        for lane in Class.allCases where underWay[lane.rawValue] < limits[lane.rawValue] {
            // What fails must not pile up slow attempts without end, and leaves room for what is unknown.
            if lane == .failing, slow >= maxSlow / 4 { continue }
            if lane == .unknown, slow >= maxSlow { continue }
            guard let target = queues[lane.rawValue].takeFirst() else { continue }
            target.isQueued = false
            return (target, lane)
        }
        return nil
    }

    mutating func begin(_ lane: Class) { underWay[lane.rawValue] += 1 }

    mutating func end(_ lane: Class, isSlow: Bool) {
        if isSlow { slow -= 1 } else { underWay[lane.rawValue] -= 1 }
    }

    /// Gives the place of a slow attempt to others; false when too many are slow already.
    mutating func giveUpPlace(_ lane: Class) -> Bool {
        guard slow < maxSlow else { return false }
        underWay[lane.rawValue] -= 1
        slow += 1
        return true
    }
}

/// First in, first out.
struct TargetQueue {
    private var targets: [Target] = []
    private var first = 0

    var count: Int { targets.count - first }

    mutating func append(_ target: Target) { targets.append(target) }

    mutating func takeFirst() -> Target? {
        guard first < targets.count else { return nil }
        defer {
            first += 1
            if first == targets.count || first > 4096 {
                targets.removeFirst(first)
                first = 0
            }
        }
        return targets[first]
    }
}
