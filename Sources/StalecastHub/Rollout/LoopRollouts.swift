package import StalecastWire

/// The versions under way on one loop of Edge, and how far each is on its streams. Who has not been told is known to
/// the loop, which says so when it is asked: a stream that was told at once costs nothing here.
package struct LoopRollouts {
    package struct Version {
        let number: VersionNumber
        package let sequence: CommitSequence
        /// Topics that announced it and have not announced a newer version since.
        package fileprivate(set) var topics: [Topic.Index]
        package var streamCounts = StreamCounts()
        fileprivate var told: StreamCounts?
        /// Streams of its audience that will only get a newer version.
        fileprivate var passedOver = 0
        /// Whether it was written, or is held back. False between its announcement and the fan-out of the same batch.
        fileprivate var isFannedOut = false
    }

    /// Oldest first.
    package private(set) var versions: [Scope: [Version]] = [:]
    /// Something happened that the book was not told of.
    package var hasNews = false

    package init() {}

    package var isEmpty: Bool { versions.isEmpty }

    /// A change is about to be written. Streams that still wait for an older version on its topics get only this one.
    ///
    /// - Parameters:
    ///   - audience: counts the streams of topics.
    ///   - waiting: how many streams of a version's audience wait for it.
    package mutating func begin(
        _ announcement: TopicBoard.Announcement, audience: ([Topic.Index]) -> Int, waiting: (Version) -> Int
    ) {
        if announcement.audience == .empty { return }
        let (change, topics) = (announcement.change, announcement.encodedMessages.map(\.topic))
        // Taken out of the dictionary, so that changing it copies nothing.
        var list: [Version] = []
        swap(&list, &versions[change.scope, default: []])
        // A loop without subscribers takes a hundred versions at once: only the newest of them has topics left.
        for place in list.indices where list[place].topics.contains(where: topics.contains) {
            let older = list[place]
            guard older.number != change.version else { continue }
            // A stream of several topics may get it on another one.
            var rest = older
            rest.topics.removeAll(where: topics.contains)
            let passedOver =
                older.isFannedOut
                ? waiting(older) - waiting(rest) : audience(older.topics) - audience(rest.topics)
            list[place].passedOver += max(0, passedOver)
            list[place].topics = rest.topics
        }
        var version = Version(number: change.version, sequence: change.sequence, topics: topics)
        version.streamCounts.streams = audience(topics)
        list.append(version)
        versions[change.scope] = list
        hasNews = true
    }

    /// A scope's members moved to the topics of stages: who waits for a version is found among these.
    package mutating func split(_ scope: Scope, on board: TopicBoard) {
        for (place, version) in (versions[scope] ?? []).enumerated() {
            let bases = Set(version.topics.map { board[$0].base ?? $0 })
            let seats = board.seats(of: scope).filter { bases.contains(board[$0].base ?? $0) }
            versions[scope]?[place].topics = seats
        }
    }

    /// Notes that a version was written to every stream that takes bytes, but for those whose turn comes.
    package mutating func fannedOut(_ change: TemplateChange, nanoseconds: UInt64, polls: Int = 0) {
        guard let place = versions[change.scope]?.lastIndex(where: { $0.sequence == change.sequence }) else { return }
        guard let streams = versions[change.scope]?[place].streamCounts.streams else { return }
        versions[change.scope]?[place].isFannedOut = true
        versions[change.scope]?[place].streamCounts.polls += polls
        // A loop without subscribers takes announcements late.
        if streams + polls > 0 { versions[change.scope]?[place].streamCounts.nanoseconds = nanoseconds }
    }

    /// A stream ended that was not told of the versions in `range`.
    package mutating func left(_ range: ClosedRange<CommitSequence>, hears: ([Topic.Index]) -> Bool) {
        for (scope, list) in versions {
            for (place, version) in list.enumerated()
            where range.contains(version.sequence) && hears(version.topics) {
                versions[scope]?[place].streamCounts.left += 1
                hasNews = true
            }
        }
    }

    /// A stream came after them.
    package mutating func joined(hears: ([Topic.Index]) -> Bool) {
        for (scope, list) in versions {
            for (place, version) in list.enumerated() where hears(version.topics) {
                versions[scope]?[place].streamCounts.joined += 1
            }
        }
    }

    /// Tells the book what changed, and lets go of older versions for which no stream waits.
    ///
    /// - Parameter waiting: how many streams of a version's audience wait for it.
    package mutating func tell(_ book: RolloutTracker, as loop: Int, waiting: (Version) -> Int) {
        hasNews = false
        for (scope, var list) in versions {
            var open: Set<CommitSequence> = []
            for place in list.indices {
                let waiting = waiting(list[place])
                if waiting > 0 { open.insert(list[place].sequence) }
                list[place].streamCounts.backlogged = list[place].passedOver + waiting
                guard list[place].streamCounts != list[place].told else { continue }
                list[place].told = list[place].streamCounts
                book.note(list[place].streamCounts, of: loop, in: scope, list[place].sequence)
            }
            let newest = list.last?.sequence
            versions[scope] = list.filter { $0.sequence == newest || open.contains($0.sequence) }
        }
    }

    /// Notes the acknowledgements of the newest version's peers.
    package mutating func received(_ count: Int, unknown: Int, of scope: Scope) {
        guard let place = versions[scope]?.indices.last else { return }
        versions[scope]?[place].streamCounts.received = count
        versions[scope]?[place].streamCounts.receivedUnknown = unknown
    }
}

extension RolloutTracker {
    /// A stream or held poll of a client began.
    ///
    /// - Returns: what it is known by at its end; see ``left(_:isPoll:)``.
    package func join(
        _ client: ClientIdentity, of topics: [Topic.Index], on board: TopicBoard, from point: ResumePoint,
        isPoll: Bool, address: Address
    ) -> [UInt64] {
        Dictionary(grouping: topics) { board[$0].scope }.map { scope, topics in
            // A poll with a cursor has got what was told up to there; a stream's cursor says what it heard.
            let told = topics.compactMap { board[$0].latest?.version }.max() ?? 0
            let answered = isPoll ? board.version(of: scope, at: point.cursor).map { min($0, told) } : nil
            let arrival = ClientArrival(
                client, scope, topics: Set(topics), isPoll: isPoll, held: max(point.have ?? 0, answered ?? 0),
                head: board.headSequence)
            joined(arrival, address: address)
            return client.key(in: scope)
        }
    }
}
