import CLinux
import Glibc
import Logging
package import StalecastHub

/// Writes and ends of subscribers, as ``Carrier`` asks for them.
extension Shard {
    /// The hot loop: one `send` for each stream that has nothing pending, many of them in one system call. It reads the
    /// list of members and the slots, and asks the audience about a stream only where that is not the rule.
    package func fanOut(
        _ encodedMessage: EncodedMessage, of announcement: TopicBoard.Announcement, on topic: Topic.Index,
        _ polls: inout [Int32]
    ) {
        // A message without receivers is not encoded.
        if audience.members[topic].isEmpty { return }
        let base = UnsafeRawPointer(encodedMessage.chunk.base)
        let count = encodedMessage.chunk.count
        // A change that one topic announces is the same bytes for a stream of several topics.
        let isAlone = announcement.encodedMessages.count { !$0.encodedMessage.isInvalidation } == 1
        var written = 0
        var unclocked = 0
        // Taken out first: the audience may change while its members are walked.
        let (members, slots, batch) = (audience.members[topic], slots, poller.batch)
        members.withUnsafeBufferPointer { indexes in
            for index in indexes {
                let slot = slots[index]
                if slot.pointee.phase == .direct, isAlone || slot.pointee.topic >= 0 {
                    if let batch {
                        batch.add(index, slot.pointee.fd, base, count)
                    } else {
                        let sent = stalecast_send(slot.pointee.fd, base, count)
                        if sent == count {
                            written += 1
                        } else {
                            fellShort(index, encodedMessage, sent < 0 ? blocked() : sent)
                        }
                    }
                } else if slot.pointee.phase == .stream, slot.pointee.isSealed, isAlone || slot.pointee.topic >= 0 {
                    let sent = put(base, count, on: slot)
                    if sent == count { written += 1 } else { fellShort(index, encodedMessage, sent) }
                } else {
                    deliver(encodedMessage, of: announcement, to: index, &polls)
                }
                unclocked += 1
                if unclocked == Self.flushEvery {
                    if let batch { written += send(batch, encodedMessage) }
                    clock(announcement, unclocked)
                    unclocked = 0
                }
            }
        }
        if let batch { written += send(batch, encodedMessage) }
        if unclocked > 0 { clock(announcement, unclocked) }
        audience.tally.deliveries[encodedMessage.isInvalidation ? .firebase : .sse, default: 0] += written
    }

    /// - Returns: how many streams have taken the message whole.
    private func send(_ batch: SendBatch, _ encodedMessage: EncodedMessage) -> Int {
        var written = 0
        let count = encodedMessage.chunk.count
        batch.send { index, sent in
            if sent == count {
                written += 1
            } else {
                fellShort(index, encodedMessage, sent >= 0 ? sent : sent == -Int(EAGAIN) ? 0 : -1)
            }
        }
        return written
    }

    /// A message was not taken whole, see ``put(_:on:)``: the rest becomes the backlog, or the stream is dead.
    private func fellShort(_ index: Int32, _ encodedMessage: EncodedMessage, _ sent: Int) {
        guard sent >= 0 else { return doom(index, .peerClosed) }
        audience.tally.deliveries[slots[index].pointee.dialect.transport, default: 0] += 1
        hold(Array(encodedMessage.chunk.buffer.dropFirst(sent)), for: index, through: encodedMessage.sequence)
    }

    package func send(_ bytes: ArraySlice<UInt8>, to index: Int32) -> Sent {
        assertOnLoop()
        let sent = put(bytes, on: slots[index])
        return sent == bytes.count ? .all : sent < 0 ? .gone : .part(sent)
    }

    package func settle(_ index: Int32) { takeOver(slots[index]) }

    package func finish(_ index: Int32, with answer: [UInt8], keepAlive: Bool) {
        assertOnLoop()
        slots[index].pointee.request.keepAlive = keepAlive
        send(answer, to: index)
    }

    package func acknowledgedBytes(of index: Int32) -> UInt64 { stalecast_acknowledged(slots[index].pointee.fd) }

    package func hasAcknowledgedAll(_ index: Int32) -> Bool? { stalecast_unacknowledged(slots[index].pointee.fd) == 0 }

    package func release(_ index: Int32, _ reason: DropReason?) {
        assertOnLoop()
        let slot = slots[index]
        guard slot.pointee.phase != .free else { return }
        if reason == .writeStall, slot.pointee.isStream {
            logger.debug("stream closed", metadata: ["reason": "write_stall", "shard": "\(gauges.name)"])
        }
        // Before `leave`, which forgets whether something is pending: then no goodbye may be said.
        letGo(of: slot, reason)
        leave(index, reason)
        close(slot.pointee.fd)
        ledger.leave(slot.pointee.client.address)
        if !proxies.isEmpty { proxies[index] = nil }
        _ = input.remove(index)
        slots.release(index)
    }

    package func timerFired(_ index: Int32) {
        assertOnLoop()
        let slot = slots[index]
        switch slot.pointee.phase {
        case .free, .doomed: return
        case .head where slot.pointee.input.waits > 0 && !isDraining: refuseBody(index)
        case .head: release(index, isDraining ? .drain : headReason(index))
        // Signatures take longer than a client should wait: the Front says so.
        case .verifying: giveToFront(index)
        case .answering: hasTakenMore(index) ? awaitProgress(index) : release(index, .writeStall)
        case .poll, .direct, .stream: subscriberTimerFired(index)
        }
    }

    /// A connection that never completed a head is slow; one that had an answer before is merely idle.
    func headReason(_ index: Int32) -> DropReason {
        slots[index].pointee.times.deadline == 0 ? .headerTimeout : .idle
    }
}
