package import StalecastHub
import StalecastWire

/// Loop that carries an ``Audience``'s bytes: a shard of the engine, or of the Front. Confined to one thread.
///
/// Its extensions perform what the audience decides, in one order for all carriers. While a part of the audience is
/// being changed they neither write to a connection nor read another part: a write may call ``drainBacklog(_:)``, and
/// Swift's exclusivity check would then end the process.
package protocol Carrier: AnyObject {
    var hub: Hub { get }
    var audience: Audience { get set }
    /// Connections that a drain ends.
    var connectionCount: Int { get }
    /// Writes to a stream or poll without waiting.
    func send(_ bytes: ArraySlice<UInt8>, to index: Int32) -> Sent
    /// The last write took all bytes, and nothing is pending.
    func settle(_ index: Int32)
    /// Writes one topic's message to its members. Adds to `polls` the polls that the message answers.
    func fanOut(
        _ encodedMessage: EncodedMessage, of announcement: TopicBoard.Announcement, on topic: Topic.Index,
        _ polls: inout [Int32])
    /// Writes a poll's answer. The subscriber is gone; the connection waits for its next request, or ends.
    func finish(_ index: Int32, with answer: [UInt8], keepAlive: Bool)
    /// Closes a subscriber's connection and frees its slot; calls ``leave(_:_:)`` before. Never called within a
    /// fan-out: see ``doom(_:_:)``.
    func release(_ index: Int32, _ reason: DropReason?)
    /// Bytes that the peer has acknowledged; 0 where that is not known.
    func acknowledgedBytes(of index: Int32) -> UInt64
    /// Whether the peer has acknowledged all bytes; nil where that is not known.
    func hasAcknowledgedAll(_ index: Int32) -> Bool?
    /// A slot's tick has come; it is no longer in the wheel.
    func timerFired(_ index: Int32)
}

package enum Sent: Equatable, Sendable {
    case all
    /// Number of bytes that were taken; ``Carrier/drainBacklog(_:)`` follows when the connection takes more.
    case part(Int)
    case gone
}

extension Carrier {
    var slots: SlotTable { audience.slots }
    var board: TopicBoard { audience.board }
    var settings: EdgeSettings { audience.settings }
    var isDraining: Bool { audience.drainEnd != nil }

    func drainRetryMs() -> Int { audience.drainRetryMs(connections: connectionCount) }

    package func acknowledgedBytes(of index: Int32) -> UInt64 { 0 }
    package func hasAcknowledgedAll(_ index: Int32) -> Bool? { nil }
    package func settle(_ index: Int32) {}
    package func timerFired(_ index: Int32) { subscriberTimerFired(index) }

    // MARK: Writing

    /// Sends bytes to a stream without a backlog. Bytes that do not fit become its backlog.
    func write(_ bytes: [UInt8], to index: Int32, through sequence: CommitSequence) {
        switch send(bytes[...], to: index) {
        case .all: settle(index)
        case .part(let sent): hold(Array(bytes.dropFirst(sent)), for: index, through: sequence)
        case .gone: doom(index, .peerClosed)
        }
    }

    func hold(_ rest: [UInt8], for index: Int32, through sequence: CommitSequence) {
        let acknowledged = acknowledgedBytes(of: index)
        audience.hold(rest, for: index, through: sequence, acknowledged: acknowledged)
    }

    /// Sends what is pending once the connection takes bytes again: the rest of the interrupted write, then the newest
    /// message of each topic that came meanwhile.
    package func drainBacklog(_ index: Int32) {
        // A copy: the table must not be under change while `send` runs, which may lead back here.
        guard var backlog = audience.backlogs[index] else { return }
        repeat {
            let sent = backlog.rest.isEmpty ? .all : send(backlog.rest, to: index)
            if sent == .gone { return doom(index, .peerClosed) }
            if sent != .part(0) { backlog.progress = audience.wheel.now }
            if case .part(let count) = sent {
                backlog.offset += count
                audience.backlogs[index] = backlog
                return audience.reschedule(index)
            }
            backlog.offset = backlog.bytes.count
        } while audience.refill(&backlog, index)
        audience.backlogs[index] = backlog
        audience.endBacklog(index)
        settle(index)
        let slot = slots[index]
        slot.pointee.phase = slot.pointee.isOrdinary ? .direct : .stream
        audience.reschedule(index)
    }

    // MARK: Ends

    /// Marks a connection for release after the fan-out that met it; until then it takes no more messages.
    func doom(_ index: Int32, _ reason: DropReason) {
        let slot = slots[index]
        guard slot.pointee.phase != .doomed, slot.pointee.phase != .free else { return }
        audience.doomed.append((index, reason))
        audience.tally.streams -= 1
        slot.pointee.phase = .doomed
    }

    package func releaseDoomed() {
        while let (index, reason) = audience.doomed.popLast() { release(index, reason) }
    }

    /// Removes a connection from its topics, timers and gauges, before its slot is freed.
    package func leave(_ index: Int32, _ reason: DropReason?) {
        if hub.releases.isOpen { tellEnd(index, reason) }
        endSubscription(index)
        audience.backlogs[index] = nil
        audience.wheel.remove(index, in: slots)
        if let reason { audience.tally.drops[reason, default: 0] += 1 }
    }

    /// Takes a stream or a held poll out of its topics and out of the gauges.
    func endSubscription(_ index: Int32) {
        let slot = slots[index]
        var untold: CommitSequence?
        switch slot.pointee.phase {
        case .doomed:
            // ``doom(_:_:)`` has already taken the stream off the tally.
            let noted = audience.reach.untold.removeValue(forKey: index)
            untold = [audience.countUntold(index), noted].compactMap { $0 }.min()
        case .direct, .stream:
            audience.tally.streams -= 1
            untold = audience.countUntold(index)
        case .poll:
            audience.tally.polls -= 1
            audience.notes.unknown[index] = nil
            audience.notes.shared[index] = nil
        default: return
        }
        forget(index, isPoll: slot.pointee.phase == .poll, untold: untold)
        audience.unsubscribe(index)
        audience.backlogs[index] = nil
        slot.pointee.hasBacklog = false
        slot.pointee.phase = .head
    }

    /// Ends a stream cleanly, with a delay to come back after; a poll is answered; another connection is closed.
    func end(_ index: Int32, _ reason: DropReason) {
        let slot = slots[index]
        switch slot.pointee.phase {
        // The doomed are released by ``releaseDoomed()``; until then they are in its list.
        case .free, .doomed: return
        case .poll: answerEmpty(index)
        case .direct, .stream:
            if !slot.pointee.hasBacklog { sendEnd(index, reason) }
            release(index, reason)
        default: release(index, reason)
        }
    }

    private func sendEnd(_ index: Int32, _ reason: DropReason) {
        let dialect = slots[index].pointee.dialect
        let retry = isDraining ? drainRetryMs() : audience.policy.retryMs()
        let newest = isDraining ? audience.topics(of: index).first.map { board[$0].latest?.version ?? 0 } : nil
        var bytes: [UInt8] = []
        dialect.appendAuth(reason, to: &bytes)
        dialect.appendEnd(retryMs: retry, newest: newest, to: &bytes)
        _ = send(bytes[...], to: index)
    }
}
