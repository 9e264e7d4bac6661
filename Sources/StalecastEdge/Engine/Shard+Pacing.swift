import StalecastHub
import StalecastWire

/// Messages to Firebase's streams keep a distance: their parsers take one message from what one read returns, so two
/// that arrive together would be one. Newest wins within the distance.
extension Shard {
    /// The distance in ticks: at least 100 ms.
    private static let distance: Tick = 2

    /// True when a scope's hidden topic had a message a moment ago: this one waits, in place of one that waits already.
    func holdBack(_ topic: TopicIndex, _ announcement: Announcement) -> Bool {
        guard board[topic].binding.isInvalidation else { return false }
        guard let until = pacedUntil[topic], until > wheel.now else {
            pacedUntil[topic] = wheel.now + Self.distance
            return false
        }
        if heldBack.updateValue(announcement, forKey: topic) != nil {
            tally.coalesced += members[Int(topic.rawValue)].count
        }
        return true
    }

    /// Sends what waits for a topic now.
    func flushPaced(_ topic: TopicIndex) {
        guard let announcement = heldBack.removeValue(forKey: topic) else { return }
        pacedUntil[topic] = wheel.now + Self.distance
        deliver(announcement, on: topic)
    }

    /// Sends what has waited long enough.
    func flushPaced() {
        for topic in heldBack.keys where (pacedUntil[topic] ?? 0) <= wheel.now { flushPaced(topic) }
    }
}
