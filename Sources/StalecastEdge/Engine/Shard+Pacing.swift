import StalecastHub
import StalecastWire

/// Messages to Firebase's streams keep a distance: their parsers take one message from what one read returns, so two
/// that arrive together would be one. Newest wins within the distance.
extension Shard {
    /// The distance in ticks, of which the running one is over soon.
    private static let distance = TimerWheel.ticks(SubscriberPolicy.distanceMs) + 1

    /// True when a scope's hidden topic had a message a moment ago: this one waits, in place of one that waits already.
    func holdBack(_ topic: Topic.Index, _ announcement: TopicBoard.Announcement) -> Bool {
        guard board[topic].isInvalidation else { return false }
        guard let until = pacedUntil[topic], until > wheel.now else {
            said(topic)
            return false
        }
        if heldBack.updateValue(announcement, forKey: topic) != nil {
            tally.coalesced += members[Int(topic.rawValue)].count
        }
        return true
    }

    private func said(_ topic: Topic.Index) {
        pacedUntil[topic] = wheel.now + Self.distance
        echoes[topic, default: BurstEcho()].said(at: nowMs, delayMs: UInt64(settings.burstEcho.milliseconds))
    }

    /// Notes that the same message went to more streams: the next one keeps its distance from these, and the burst is
    /// not over.
    func saidMore(_ topic: Topic.Index) {
        pacedUntil[topic] = wheel.now + Self.distance
        echoes[topic]?.saidMore(at: nowMs, delayMs: UInt64(settings.burstEcho.milliseconds))
    }

    var nowMs: UInt64 { UInt64(wheel.now) * (TimerWheel.tickNanoseconds / 1_000_000) }

    /// Sends what waits for a topic now.
    func flushPaced(_ topic: Topic.Index) {
        guard let announcement = heldBack.removeValue(forKey: topic) else { return }
        said(topic)
        deliver(announcement, on: topic)
    }

    /// Sends what has waited long enough.
    func flushPaced() {
        for topic in heldBack.keys where (pacedUntil[topic] ?? 0) <= wheel.now { flushPaced(topic) }
    }

    // MARK: Echoes

    /// Says the newest message of each burst that is over once more; see ``BurstEcho``.
    func echoBursts() {
        // While turns are waited for the burst is not over.
        for topic in echoes.keys where fanOuts[topic] == nil && echoes[topic]?.takeDue(at: nowMs) == true {
            echo(topic)
        }
        releaseDoomed()
    }

    /// A stream with a backlog reads too slowly to be helped; the end of its life tells it.
    private func echo(_ topic: Topic.Index) {
        let encodedMessages = board.newest(of: CollectionOfOne(topic)).map { cache.encodedMessage(for: $0, on: board) }
        for index in members[Int(topic.rawValue)] where !slots[index].pointee.hasBacklog {
            guard slots[index].pointee.phase == .direct || slots[index].pointee.phase == .stream else { continue }
            out.removeAll(keepingCapacity: true)
            slots[index].pointee.dialect.append(encodedMessages, to: &out)
            tally.echoes += 1
            write(out, to: index, through: board.headSequence)
        }
    }
}
