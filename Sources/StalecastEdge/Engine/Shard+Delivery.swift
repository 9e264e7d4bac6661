import CLinux
import StalecastHTTP
import StalecastHub
import StalecastWire

extension Shard {
    // MARK: Announcements

    /// Writes the messages of consecutive changes to every subscriber of their topics.
    func broadcast(_ run: [TopicBoard.Announcement]) {
        releaseDoomed()
        if hub.releases.isOpen { tellStages(run) }
        for announcement in run {
            rollouts.begin(announcement, audience: streams(on: announcement.encodedMessages.map(\.topic)))
        }
        let batch = board.apply(run, cache: &cache)
        for topic in batch.skipped { tally.coalesced += members[Int(topic.rawValue)].count }
        var polls: [Int32] = []
        for announcement in batch.announcements {
            let before = polls.count
            for (topic, encodedMessage) in announcement.encodedMessages
            where !holdBack(topic, announcement) && !pace(topic, announcement) {
                fanOut(topic, encodedMessage, announcement, &polls)
            }
            let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
            rollouts.fannedOut(announcement.change, nanoseconds: elapsed, polls: polls.count - before)
        }
        for index in Set(polls) { answerPoll(index, after: batch.before) }
        for announcement in run { noteUnsent(announcement) }
        forgetReached()
        if !canaries.isEmpty { canaries.tell(run) }
        releaseDoomed()
        tellStreamCounts()
    }

    /// Writes one topic's message of a change that was held back.
    func deliver(_ announcement: TopicBoard.Announcement, on topic: Topic.Index) {
        var polls: [Int32] = []
        for entry in announcement.encodedMessages where entry.topic == topic && !pace(topic, announcement) {
            fanOut(topic, entry.encodedMessage, announcement, &polls)
        }
        noteUnsent([topic], (heldSince.removeValue(forKey: topic) ?? 0)...announcement.change.sequence)
        forgetReached()
        releaseDoomed()
        tellStreamCounts()
    }

    /// The hot loop: one `send` for each stream that has nothing pending.
    private func fanOut(
        _ topic: Topic.Index, _ encodedMessage: EncodedMessage, _ announcement: TopicBoard.Announcement,
        _ polls: inout [Int32]
    ) {
        let base = UnsafeRawPointer(encodedMessage.chunk.base)
        let count = encodedMessage.chunk.count
        // A change that one topic announces is the same bytes for a stream of several topics.
        let isAlone = announcement.encodedMessages.count { !$0.encodedMessage.isInvalidation } == 1
        var written = 0
        var unclocked = 0
        members[Int(topic.rawValue)].withUnsafeBufferPointer { indexes in
            for index in indexes {
                let slot = slots[index]
                if slot.pointee.phase == .direct, isAlone || slot.pointee.topic >= 0 {
                    let sent = stalecast_send(slot.pointee.fd, base, count)
                    if sent == count {
                        written += 1
                    } else {
                        fellShort(index, encodedMessage, sent < 0 ? blocked() : sent)
                    }
                } else if slot.pointee.phase == .stream, slot.pointee.isSealed, isAlone || slot.pointee.topic >= 0 {
                    let sent = put(base, count, on: slot)
                    if sent == count { written += 1 } else { fellShort(index, encodedMessage, sent) }
                } else {
                    deliverSlowly(index, encodedMessage, announcement, &polls)
                }
                unclocked += 1
                if unclocked == Self.flushEvery { clock(announcement, &unclocked) }
            }
        }
        if unclocked > 0 { clock(announcement, &unclocked) }
        tally.deliveries[encodedMessage.isInvalidation ? .firebase : .sse, default: 0] += written
    }

    /// Reads the clock once for many deliveries.
    private func clock(_ announcement: TopicBoard.Announcement, _ count: inout Int) {
        let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
        tally.publishToWritten.record(seconds: Double(elapsed) / 1e9, count: count)
        count = 0
    }

    /// A message was not taken whole, see ``put(_:on:)``: the rest becomes the backlog, or the stream is dead.
    private func fellShort(_ index: Int32, _ encodedMessage: EncodedMessage, _ sent: Int) {
        guard sent >= 0 else { return doom(index, .peerClosed) }
        tally.deliveries[slots[index].pointee.dialect.transport, default: 0] += 1
        hold(Array(encodedMessage.chunk.buffer.dropFirst(sent)), for: index, through: encodedMessage.sequence)
    }

    private func deliverSlowly(
        _ index: Int32, _ encodedMessage: EncodedMessage, _ announcement: TopicBoard.Announcement,
        _ polls: inout [Int32]
    ) {
        let slot = slots[index]
        switch slot.pointee.phase {
        case .poll: if isFirst(index, announcement.change.sequence) { polls.append(index) }
        case .direct, .stream:
            guard isFirst(index, announcement.change.sequence) else { return }
            if slot.pointee.hasBacklog {
                backlogs[index]?.deferred += 1
                return
            }
            let encodedMessages = encodedMessages(of: announcement, for: index)
            out.removeAll(keepingCapacity: true)
            slot.pointee.dialect.append(encodedMessages, to: &out)
            tally.deliveries[slot.pointee.dialect.transport, default: 0] += encodedMessages.count
            write(out, to: index, through: announcement.change.sequence)
        default: return
        }
    }

    /// True the first time an announcement meets a subscriber; with several topics it meets it once for each.
    private func isFirst(_ index: Int32, _ sequence: CommitSequence) -> Bool {
        guard slots[index].pointee.topic == StreamSlot.several else { return true }
        guard let handled = several[index]?.handled, handled < sequence else { return false }
        several[index]?.handled = sequence
        return true
    }

    private func encodedMessages(of announcement: TopicBoard.Announcement, for index: Int32) -> [EncodedMessage] {
        let topics = topics(of: index)
        return announcement.encodedMessages.filter { topics.contains($0.topic) }.map(\.encodedMessage)
    }

    /// A poll's answer carries the head as its cursor, so it must have everything that was announced after `before`.
    private func answerPoll(_ index: Int32, after before: CommitSequence) {
        guard slots[index].pointee.phase == .poll else { return }
        let messages = board.owed(to: topics(of: index), after: before).map {
            cache.encodedMessage(for: $0, on: board).json
        }
        tally.deliveries[.poll, default: 0] += messages.count
        answer(index, messages)
    }

    // MARK: Data messages

    /// Writes a sent message to every subscriber its target reaches.
    func broadcast(_ message: DataMessage) {
        for index in audience(of: message) {
            let slot = slots[index]
            switch slot.pointee.phase {
            case .poll:
                tally.deliveries[.poll, default: 0] += 1
                answer(index, [message.json])
            case .direct, .stream: deliver(message, to: index)
            default: continue
            }
        }
        releaseDoomed()
    }

    private func audience(of message: DataMessage) -> [Int32] {
        if case .topic(let name) = message.target {
            let lists = board.audience(name, in: message.project).map { members[Int($0.rawValue)] }
            return lists.count < 2 ? lists.first ?? [] : Array(Set(lists.joined()))
        }
        return (0..<slots.end).filter { index in
            switch slots[index].pointee.phase {
            case .direct, .stream, .poll:
                !slots[index].pointee.isInvalidation && message.reaches(topics(of: index), on: board)
            default: false
            }
        }
    }

    private func deliver(_ message: DataMessage, to index: Int32) {
        if slots[index].pointee.hasBacklog {
            if backlogs[index]?.data != nil { tally.coalesced += 1 }
            backlogs[index]?.data = message
            return
        }
        out.removeAll(keepingCapacity: true)
        slots[index].pointee.dialect.append(chunk: message.chunk, to: &out)
        tally.deliveries[.sse, default: 0] += 1
        write(out, to: index, through: board.headSequence)
    }

    // MARK: Writing

    /// Sends bytes to a stream without a backlog; what does not fit becomes its backlog.
    func write(_ bytes: [UInt8], to index: Int32, through sequence: CommitSequence) {
        let sent = put(bytes[...], on: slots[index])
        if sent == bytes.count { return takeOver(slots[index]) }
        guard sent >= 0 else { return doom(index, .peerClosed) }
        hold(Array(bytes.dropFirst(sent)), for: index, through: sequence)
    }

    private func hold(_ rest: [UInt8], for index: Int32, through sequence: CommitSequence) {
        let slot = slots[index]
        backlogs[index] = Backlog(
            bytes: rest, through: sequence, progress: wheel.now, acknowledged: stalecast_acknowledged(slot.pointee.fd))
        slot.pointee.hasBacklog = true
        slot.pointee.phase = .stream
        reschedule(index)
    }

    /// The socket takes bytes again: the rest of the broken write, then the newest of what came meanwhile.
    func drainBacklog(_ index: Int32) {
        guard var backlog = backlogs[index] else { return }
        repeat {
            let sent = put(backlog.rest, on: slots[index])
            if sent < 0 { return doom(index, .peerClosed) }
            if sent == 0 { break }
            backlog.offset += sent
            backlog.progress = wheel.now
            if backlog.count > 0 { break }
        } while refill(&backlog, index)
        backlogs[index] = backlog
        if backlog.count == 0 { endBacklog(index) } else { reschedule(index) }
    }

    /// Puts what the board says is owed now into an emptied backlog; false when nothing is.
    private func refill(_ backlog: inout Backlog, _ index: Int32) -> Bool {
        let debts = board.owed(to: topics(of: index), after: backlog.through)
        guard !debts.isEmpty || backlog.data != nil else { return false }
        let dialect = slots[index].pointee.dialect
        out.removeAll(keepingCapacity: true)
        dialect.append(debts.map { cache.encodedMessage(for: $0, on: board) }, to: &out)
        if let data = backlog.data { dialect.append(chunk: data.chunk, to: &out) }
        tally.deliveries[dialect.transport, default: 0] += debts.count + (backlog.data == nil ? 0 : 1)
        tally.coalesced += max(0, backlog.deferred - debts.count)
        let since = min(backlog.unsentSince ?? .max, reachedByBacklog(index) ?? .max)
        backlog = Backlog(
            bytes: out, through: board.headSequence, progress: backlog.progress, acknowledged: backlog.acknowledged,
            unsentSince: since == .max ? nil : since)
        return true
    }

    private func endBacklog(_ index: Int32) {
        let slot = slots[index]
        let backlog = backlogs.removeValue(forKey: index)
        tally.coalesced += backlog?.deferred ?? 0
        if backlog?.unsentSince != nil { rollouts.hasNews = true }
        slot.pointee.hasBacklog = false
        takeOver(slot)
        slot.pointee.phase = slot.pointee.isOrdinary ? .direct : .stream
        reschedule(index)
    }
}
