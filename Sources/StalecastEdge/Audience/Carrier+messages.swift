import CLinux
package import StalecastHub
import StalecastWire

/// Messages to an audience: of the hub, and those that are due later.
extension Carrier {
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

    /// Handles one event of the hub by itself.
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
