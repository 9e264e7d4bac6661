import NIOCore

/// Queue for handshakes on one event loop. A handshake costs as much as fifty deliveries, so few are under way at once
/// and the rest wait in line; who has a place and does nothing with it loses it when others wait.
package struct HandshakeLine<Member: AnyObject> {
    /// Handshakes under way at once.
    package static var places: Int { 64 }
    /// Time that a place is safe while others wait, in nanoseconds: a round trip to anywhere fits twice.
    package static var patience: UInt64 { 1_000_000_000 }

    private var seated: [ObjectIdentifier: (member: Member, since: UInt64)] = [:]
    private var waiting = CircularBuffer<Member>()
    /// Members of `waiting` that have not gone away.
    private var wanted: Set<ObjectIdentifier> = []

    package init() {}

    /// True: it may begin. False: ``next(at:)`` will name it.
    package mutating func enter(_ member: Member, at now: UInt64) -> Bool {
        if seated.count < Self.places {
            seated[ObjectIdentifier(member)] = (member, now)
            return true
        }
        waiting.append(member)
        wanted.insert(ObjectIdentifier(member))
        return false
    }

    /// Removes a member that is done or gone, wherever it was.
    package mutating func leave(_ member: Member) {
        seated[ObjectIdentifier(member)] = nil
        wanted.remove(ObjectIdentifier(member))
        // A member that left the line is removed at once, to free its memory.
        if wanted.isEmpty { waiting.removeAll(keepingCapacity: true) }
    }

    /// The next member that may begin; nil when none waits or no place is free.
    package mutating func next(at now: UInt64) -> Member? {
        while seated.count < Self.places, let member = waiting.popFirst() {
            guard wanted.remove(ObjectIdentifier(member)) != nil else { continue }
            seated[ObjectIdentifier(member)] = (member, now)
            return member
        }
        return nil
    }

    /// Members whose places are wanted by others and who have had them for longer than ``patience``.
    package func overdue(at now: UInt64) -> [Member] {
        guard !wanted.isEmpty else { return [] }
        let late = seated.values.filter { now >= $0.since + Self.patience }.sorted { $0.since < $1.since }
        return late.prefix(wanted.count).map(\.member)
    }
}
