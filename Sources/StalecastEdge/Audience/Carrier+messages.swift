import CLinux
import StalecastHTTP
package import StalecastHub
package import StalecastWire

/// Everything that a subscriber is sent: its opening, messages of the hub, and those that are due later.
extension Carrier {
    // MARK: Streams

    /// Begins a stream or a poll in a slot that has a connection.
    package func open(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        slot.pointee.client.principal = topics.principal
        slot.pointee.client.apiKey = topics.apiKey
        slot.pointee.client.key = request.clientKey.rawValue
        slot.pointee.request.isHTTP11 = request.isHTTP11
        slot.pointee.request.keepAlive = request.keepAlive
        slot.pointee.request.kind = request.kind
        switch request.kind {
        case .events, .invalidations, .pings: openStream(index, request, topics)
        case .poll, .state: openPoll(index, request, topics)
        }
    }

    /// Registers first, then reads the state, then writes what is owed: nothing can fall between.
    private func openStream(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        let dialect = slot.pointee.dialect
        // A message that is held back goes out first: this stream gets it with its opening, and must not get it twice.
        if request.kind.isOfScope { flushPaced(topics.known[0]) }
        audience.subscribe(index, to: topics.known)
        slot.pointee.joined = UInt32(truncatingIfNeeded: board.headSequence)
        audience.countJoined(index)
        identify(index, request, topics.known)
        slot.pointee.phase = slot.pointee.isOrdinary ? .direct : .stream
        audience.tally.streams += 1
        if hub.releases.isOpen { tellBegin(index) }
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: settings.allowedOrigins)
        let bytes = audience.opening(of: dialect, topics, from: request.resume, cors)
        audience.scheduleStream(index, until: topics.expiresInMs)
        write(bytes, to: index, through: board.headSequence)
    }

    /// Tells the rollout tracker which client has this stream or poll, if the client named itself.
    func identify(_ index: Int32, _ request: StreamRequest, _ topics: [Topic.Index]) {
        guard let client = request.client else { return }
        let address = slots[index].pointee.client.address
        audience.reach.identities[index] = hub.propagation.join(
            client, of: topics, on: board, from: request.resume, isPoll: request.kind == .poll,
            address: (address, !stalecast_is_loopback_key(address)))
    }

    // MARK: Events of the hub

    /// Joins the hub.
    ///
    /// - Parameter post: queues an event; false where it is only for subscribers of a scope, and the loop has none.
    package func attach(_ post: @escaping @Sendable (Hub.Event, Scope?) -> Bool) {
        let (hub, loop) = (hub, hub.propagation.addLoop())
        audience.reach.loop = loop
        audience.board = hub.attach { event in
            var change: TemplateChange?
            if case .announcement(let announcement) = event, announcement.audience == nil, !hub.releases.isOpen {
                change = announcement.change
            }
            guard !post(event, change?.scope), let change else { return }
            // The loop takes the event later. The tracker records now that the loop has no streams for it.
            hub.propagation.note(nil, of: loop, in: change.scope, change.sequence)
        }
        audience.members.grow(to: board.topics.count)
    }

    /// Handles events of the hub in their order; announcements that follow each other are one batch.
    package func handle(_ events: [Hub.Event]) {
        var run: [TopicBoard.Announcement] = []
        for event in events {
            if case .announcement(let announcement) = event {
                run.append(announcement)
                continue
            }
            broadcast(run)
            run = []
            handle(event)
        }
        broadcast(run)
    }

    package func handle(_ event: Hub.Event) {
        switch event {
        case .announcement(let announcement): broadcast([announcement])
        case .data(let message): broadcast(message)
        case .rebound(let board):
            releaseDoomed()
            for index in audience.rebind(to: board) { end(index, .topicRetired) }
        case .split(let scope, let board): split(scope, as: board)
        }
    }

    // MARK: Announcements

    /// Writes the messages of consecutive changes to every subscriber of their topics: newest wins.
    package func broadcast(_ run: [TopicBoard.Announcement]) {
        if run.isEmpty { return }
        releaseDoomed()
        if hub.releases.isOpen { tellStages(run) }
        let batch = audience.apply(run)
        var polls: [Int32] = []
        for announcement in batch.announcements {
            let before = polls.count
            for (topic, encodedMessage) in announcement.encodedMessages where !audience.isPaced(topic, announcement) {
                fanOut(encodedMessage, of: announcement, on: topic, &polls)
            }
            noteFanOut(of: announcement, polls: polls.count - before)
        }
        // A poll is in the list once for each announcement of the run, and has one answer.
        for index in Set(polls) { answerPoll(index, after: batch.before) }
        for announcement in run { audience.noteUnsent(announcement) }
        audience.pacing.forgetReached()
        if !audience.canaries.isEmpty { audience.canaries.tell(run) }
        releaseDoomed()
        audience.tellStreamCounts(hub.propagation)
    }

    private func noteFanOut(of announcement: TopicBoard.Announcement, polls: Int = 0) {
        let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
        audience.reach.rollouts.fannedOut(announcement.change, nanoseconds: elapsed, polls: polls)
    }

    /// Writes one topic's message that was held back.
    func deliver(_ announcement: TopicBoard.Announcement, on topic: Topic.Index) {
        var polls: [Int32] = []
        for entry in announcement.encodedMessages where entry.topic == topic && !audience.spread(topic, announcement) {
            fanOut(entry.encodedMessage, of: announcement, on: topic, &polls)
        }
        let since = audience.pacing.takeHeldSince(topic) ?? 0
        audience.noteUnsent([topic], since...announcement.change.sequence)
        audience.pacing.forgetReached()
        releaseDoomed()
        audience.tellStreamCounts(hub.propagation)
    }

    package func fanOut(
        _ encodedMessage: EncodedMessage, of announcement: TopicBoard.Announcement, on topic: Topic.Index,
        _ polls: inout [Int32]
    ) {
        let members = audience.members[topic]
        for index in members { deliver(encodedMessage, of: announcement, to: index, &polls) }
        clock(announcement, members.count)
    }

    /// Reads the clock once for many deliveries.
    func clock(_ announcement: TopicBoard.Announcement, _ count: Int) {
        let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
        audience.tally.publishToWritten.record(seconds: Double(elapsed) / 1e9, count: count)
    }

    /// Writes an announcement to one subscriber that the fan-out cannot write to at once.
    func deliver(
        _ encodedMessage: EncodedMessage, of announcement: TopicBoard.Announcement, to index: Int32,
        _ polls: inout [Int32]
    ) {
        let slot = slots[index]
        guard slot.pointee.isSubscriber, audience.members.isFirst(index, announcement.change.sequence) else { return }
        if slot.pointee.phase == .poll { return polls.append(index) }
        if slot.pointee.hasBacklog {
            audience.backlogs[index]?.deferred += 1
            return
        }
        let topics = audience.topics(of: index)
        let own = announcement.encodedMessages.filter { topics.contains($0.topic) }.map(\.encodedMessage)
        write(own, to: index, through: announcement.change.sequence)
    }

    private func write(_ messages: [EncodedMessage], to index: Int32, through sequence: CommitSequence) {
        let dialect = slots[index].pointee.dialect
        audience.tally.deliveries[dialect.transport, default: 0] += messages.count
        writeUncounted(messages, to: index, through: sequence)
    }

    private func writeUncounted(_ messages: [EncodedMessage], to index: Int32, through sequence: CommitSequence) {
        audience.bytes.out.removeAll(keepingCapacity: true)
        slots[index].pointee.dialect.append(messages, to: &audience.bytes.out)
        write(audience.bytes.out, to: index, through: sequence)
    }

    // MARK: Paced messages

    /// Moves the clock to `target`: fires timers, and does what is due for Firebase's streams.
    package func advance(to target: Tick) {
        var fired: [Int32] = []
        while audience.wheel.now < target {
            fired.removeAll(keepingCapacity: true)
            audience.wheel.advance(in: slots, fired: &fired)
            // An earlier firing may have ended or rescheduled this subscriber; then it is no longer due.
            for index in fired where slots[index].pointee.timer.due == 0 { timerFired(index) }
            for (topic, step) in audience.pacing.steps(at: audience.nowMs) { perform(step, on: topic) }
            if !audience.canaries.isEmpty { audience.canaries.tellLate(at: stalecast_monotonic_ns()) }
            releaseDoomed()
            guard audience.wheel.now % TimerWheel.ticks(1000) == 0 else { continue }
            audience.forgetUnheard()
            if hub.countsSubscribers {
                let (all, firebase) = audience.members.byScope(on: board)
                hub.count(all, firebase: firebase, of: self)
            }
        }
    }

    private func perform(_ step: Pacing.Step, on topic: Topic.Index) {
        switch step {
        case .write(let announcement): deliver(announcement, on: topic)
        case .turns(let streams, let announcement, let isLast):
            tell(streams, announcement, on: topic)
            if isLast { noteFanOut(of: announcement) }
        case .echo: echo(topic)
        }
    }

    /// Sends what waits for a topic now.
    func flushPaced(_ topic: Topic.Index) {
        if let announcement = audience.pacing.takeHeld(topic, at: audience.nowMs) { deliver(announcement, on: topic) }
    }

    /// Sends at once what streams wait for: their turn in a paced fan-out, or the end of the distance to the last
    /// message.
    func endPacing(_ topic: Topic.Index) {
        flushPaced(topic)
        guard let fanOut = audience.pacing.takeFanOut(topic, at: audience.nowMs) else { return }
        tell(Array(fanOut.rest), fanOut.announcement, on: topic)
        noteFanOut(of: fanOut.announcement)
        releaseDoomed()
    }

    private func tell(_ streams: [Int32], _ announcement: TopicBoard.Announcement, on topic: Topic.Index) {
        guard let message = announcement.encodedMessages.first(where: { $0.topic == topic })?.encodedMessage else {
            return
        }
        for index in streams { tell(index, message, announcement.change.sequence) }
    }

    private func tell(_ index: Int32, _ encodedMessage: EncodedMessage, _ sequence: CommitSequence) {
        // A stream that left is no longer among them, even if another one has its slot by now.
        guard let since = audience.pacing.unreached[index] else { return }
        audience.reach.rollouts.hasNews = true
        if slots[index].pointee.hasBacklog {
            audience.backlogs[index]?.missed(since)
        } else {
            write([encodedMessage], to: index, through: sequence)
            // The doomed count as untold when they are released.
            if slots[index].pointee.phase == .doomed { return }
            if slots[index].pointee.hasBacklog { audience.backlogs[index]?.unsentSince = since }
        }
        audience.pacing.reached(index)
    }

    /// Sends the newest message once more. Skips a stream with a backlog, which reads too slowly to be helped: it
    /// learns the newest version when it reconnects after the end of its lifetime.
    private func echo(_ topic: Topic.Index) {
        let messages = audience.encoded(board.newest(of: CollectionOfOne(topic)))
        for index in audience.members[topic] where slots[index].pointee.isStream && !slots[index].pointee.hasBacklog {
            // Clients of LaunchDarkly's pings lose no message of a burst, unlike Firebase's SDKs.
            if slots[index].pointee.request.kind == .pings { continue }
            audience.tally.echoes += 1
            writeUncounted(messages, to: index, through: board.headSequence)
        }
    }

    // MARK: Data messages

    /// Writes a sent message to every subscriber its target reaches.
    private func broadcast(_ message: DataMessage) {
        for index in audience.audience(of: message) {
            let slot = slots[index].pointee
            if slot.phase == .poll {
                audience.tally.deliveries[.poll, default: 0] += 1
                answer(index, [message.json])
            } else if slot.hasBacklog {
                if audience.backlogs[index]?.data != nil { audience.tally.coalesced += 1 }
                audience.backlogs[index]?.data = message
            } else if slot.isStream {
                audience.bytes.out.removeAll(keepingCapacity: true)
                slot.dialect.append(chunk: message.chunk, to: &audience.bytes.out)
                audience.tally.deliveries[.sse, default: 0] += 1
                write(audience.bytes.out, to: index, through: board.headSequence)
            }
        }
        releaseDoomed()
    }
}

extension Audience {
    /// Takes consecutive announcements and returns those that are worth sending.
    fileprivate mutating func apply(_ run: [TopicBoard.Announcement]) -> AnnouncementBatch {
        for announcement in run { beginCounting(announcement) }
        let batch = board.apply(run, cache: &bytes.messages)
        for topic in batch.skipped { tally.coalesced += members[topic].count }
        return batch
    }

    /// Whether the messages to a hidden topic's streams are written later, here: see ``Pacing``.
    fileprivate mutating func isPaced(_ topic: Topic.Index, _ announcement: TopicBoard.Announcement) -> Bool {
        guard board[topic].isInvalidation else { return false }
        switch pacing.admit(announcement, on: topic, at: nowMs) {
        case .write: return spread(topic, announcement)
        case .replace:
            tally.coalesced += members[topic].count
            return true
        case .hold: return true
        }
    }

    /// Begins a paced fan-out, where the change asks for one; ends the one that it supersedes.
    ///
    /// - Returns: false where all streams are to be told now.
    fileprivate mutating func spread(_ topic: Topic.Index, _ announcement: TopicBoard.Announcement) -> Bool {
        guard board[topic].isInvalidation else { return false }
        let rest = pacing.supersede(topic)
        tally.coalesced += rest.count
        guard announcement.pacedOverMs > 0 else {
            pacing.reachAtOnce(rest)
            return false
        }
        // Streams that read too slowly get the newest message when they read again.
        for index in members[topic] where slots[index].pointee.hasBacklog {
            let since = pacing.heldSince(topic) ?? announcement.change.sequence
            let unreached = pacing.reached(index)
            backlogs[index]?.missed(unreached ?? since)
        }
        let members = members[topic].filter { !slots[$0].pointee.hasBacklog }
        // The wheel stands at the beginning of a tick: counted from there, the first turns would come too early.
        pacing.begin(announcement, on: topic, first: rest, members: members, at: nowMs + Self.tickMs)
        return true
    }

    fileprivate mutating func opening(
        of dialect: StreamDialect, _ topics: AdmittedTopics, from point: ResumePoint, _ cors: String
    ) -> [UInt8] {
        let opening = board.opening(for: topics.known, from: point)
        bytes.out.removeAll(keepingCapacity: true)
        bytes.out.append(contentsOf: bytes.stream(dialect, cors))
        dialect.appendBeginning(
            retryMs: policy.retryMs(), reset: opening.reset, unknown: topics.unknown, epoch: board.epoch, to: &bytes.out
        )
        dialect.append(encoded(opening.messages), to: &bytes.out)
        if !dialect.kind.isOfScope { bytes.out += bytes.synced(opening.head, dialect) }
        tally.deliveries[dialect.transport, default: 0] += opening.messages.count
        return bytes.out
    }
}
