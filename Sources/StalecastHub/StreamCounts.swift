package import StalecastWire

/// Progress of one version on the streams of a loop, or of all: counts only, no addresses.
package struct StreamCounts: Sendable, Hashable {
    /// Streams that were there when the change was announced and hear of it.
    package var streams = 0
    /// Streams among them that ended before they were told.
    package var left = 0
    /// Streams whose socket has not taken the message whole: they read too slowly, or it is held back for a moment. When
    /// a newer version takes its place, they stay here: they get only the newer one.
    package var backlogged = 0
    /// Streams that came later; they are told when they come, and belong to nothing else here.
    package var joined = 0
    /// Told ones, still there, of which the peer's kernel acknowledged every byte when it was asked last; and told ones
    /// of which cannot be known: they are gone, or speak TLS.
    package var received = 0
    package var receivedUnknown = 0
    /// Polls it answered.
    package var polls = 0
    /// Nanoseconds from the announcement until every stream that takes bytes had been written to; 0 where there is
    /// none.
    package var nanoseconds: UInt64 = 0
    /// Told streams whose peer had not acknowledged every byte when the kernel was asked; streams of which that cannot
    /// be known are not among them. nil while the kernel has not been asked about this version.
    package var unread: Int? = 0

    package init() {}

    /// Streams whose socket has taken the message.
    package var told: Int { max(0, streams - left - backlogged) }

    package mutating func merge(_ other: StreamCounts) {
        streams += other.streams
        left += other.left
        backlogged += other.backlogged
        joined += other.joined
        received += other.received
        receivedUnknown += other.receivedUnknown
        polls += other.polls
        nanoseconds = max(nanoseconds, other.nanoseconds)
        unread = unread.flatMap { own in other.unread.map { own + $0 } }
    }
}

extension TopicBoard {
    package func concerned(by scope: Scope) -> [Topic.Index] {
        let bound = topics.indices.filter { topics[$0].scope == scope && !topics[$0].isRetired }
        let newest = bound.compactMap { topics[$0].latest?.sequence }.max()
        return bound.filter { newest != nil && topics[$0].latest?.sequence == newest }.map(Topic.Index.init)
    }

    /// The version of a scope that the holder of a cursor was told of; nil when the cursor does not tell.
    package func version(of scope: Scope, at cursor: String?) -> VersionNumber? {
        guard let cursor = cursor.flatMap(Cursor.init), cursor.epoch == epoch, cursor.sequence <= headSequence else {
            return nil
        }
        return histories[scope]?.version(at: cursor.sequence)
    }
}
