import DequeModule

/// Decides which attempt may start next. Webhooks that answer have half of the places to themselves, so that those that
/// are dead, slow or still unknown cannot delay them.
package struct Admission: Sendable {
    package enum Class: Int, CaseIterable, Sendable {
        /// Answered last time.
        case healthy
        /// Receiver that this process has not contacted yet: a kept connection may be dead, so the attempt takes a new one.
        case unknown
        /// Failed last time.
        case failing
    }

    /// Numbers of endpoints, first in, first out.
    private(set) var queues = Class.allCases.map { _ in Deque<Int>() }
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

    /// False when no more attempts can be called slow.
    var hasRoomForSlow: Bool { slow < maxSlow }
    var waiting: Int { queues.reduce(0) { $0 + $1.count } }
    var canStart: Bool { Class.allCases.contains { !queues[$0.rawValue].isEmpty && hasPlace(for: $0) } }

    mutating func enqueue(_ endpoint: Int, _ place: Class) { queues[place.rawValue].append(endpoint) }

    /// The next that has a place, out of its queue.
    mutating func next() -> (endpoint: Int, place: Class)? {
        for place in Class.allCases where hasPlace(for: place) {
            if let endpoint = queues[place.rawValue].popFirst() { return (endpoint, place) }
        }
        return nil
    }

    private func hasPlace(for place: Class) -> Bool {
        guard underWay[place.rawValue] < limits[place.rawValue], underWay[0] + underWay[1] + underWay[2] < places else {
            return false
        }
        // What fails must not pile up slow attempts without end, and leaves room for what is unknown.
        return switch place {
        case .healthy: true
        case .unknown: slow < maxSlow
        case .failing: slow < maxSlow / 4
        }
    }

    mutating func begin(_ place: Class) { underWay[place.rawValue] += 1 }

    mutating func end(_ place: Class, isSlow: Bool) {
        if isSlow { slow -= 1 } else { underWay[place.rawValue] -= 1 }
    }

    /// Gives the place of a slow attempt to others; false when too many are slow already.
    mutating func giveUpPlace(_ place: Class) -> Bool {
        guard slow < maxSlow else { return false }
        underWay[place.rawValue] -= 1
        slow += 1
        return true
    }
}
