import CLinux
import Glibc
import NIOCore
import StalecastHTTP
import StalecastHub

/// Writes to and reads from a slot's socket, plain or sealed. All of it is edge-triggered, and none of it blocks.
extension Shard {
    /// Sends bytes.
    ///
    /// - Returns: how many were taken; over TLS those that were not must be the next to be sent. -1: the connection is
    ///   dead.
    func put(_ bytes: ArraySlice<UInt8>, on slot: UnsafeMutablePointer<StreamSlot>) -> Int {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return 0 }
            return put(base, bytes.count, on: slot)
        }
    }

    func put(_ bytes: UnsafeRawPointer, _ count: Int, on slot: UnsafeMutablePointer<StreamSlot>) -> Int {
        switch slot.pointee.cover {
        case .plain:
            let sent = stalecast_send(slot.pointee.fd, bytes, count)
            return sent < 0 ? blocked() : sent
        case .session(let tls):
            slot.pointee.input.heard = 0
            return tls.send(bytes, count)
        case .records(let records):
            slot.pointee.input.heard = 0
            return records.send(bytes, count, to: slot.pointee.fd, recordCipher)
        }
    }

    /// Sends what is left of an answer, ``Backlog/body`` included, and moves on in it.
    ///
    /// - Returns: false when the connection is dead.
    func put(_ backlog: inout Backlog, on slot: UnsafeMutablePointer<StreamSlot>) -> Bool {
        if backlog.offset < backlog.bytes.count {
            let sent = put(backlog.rest, on: slot)
            guard sent >= 0 else { return false }
            backlog.offset += sent
            if backlog.offset < backlog.bytes.count { return true }
        }
        guard backlog.body.readableBytes > 0 else { return true }
        let sent = backlog.body.withUnsafeReadableBytes { bytes in
            bytes.baseAddress.map { put($0, bytes.count, on: slot) } ?? 0
        }
        guard sent >= 0 else { return false }
        backlog.body.moveReaderIndex(forwardBy: sent)
        return true
    }

    /// Sends the head of a fetch's answer, its end and its body: in plain by one system call.
    func put(_ bytes: FetchBytes, ending: [UInt8], on slot: UnsafeMutablePointer<StreamSlot>) -> Int {
        bytes.head.withUnsafeReadableBytes { head in
            ending.withUnsafeBytes { ending in
                bytes.body.withUnsafeReadableBytes { body in
                    withUnsafeTemporaryAllocation(of: iovec.self, capacity: 3) { pieces in
                        for (place, piece) in [head, ending, body].enumerated() {
                            pieces[place] = iovec(
                                iov_base: UnsafeMutableRawPointer(mutating: piece.baseAddress), iov_len: piece.count)
                        }
                        let sent = stalecast_send_pieces(slot.pointee.fd, pieces.baseAddress, 3)
                        return sent < 0 ? blocked() : sent
                    }
                }
            }
        }
    }

    /// Seals the head of a fetch's answer, its end and its body, and sends them. What fits goes into one record: each is
    /// a system call of its own.
    ///
    /// - Returns: what was not taken, nothing if all was; nil: the connection is dead.
    func seal(
        _ bytes: FetchBytes, ending: [UInt8], on slot: UnsafeMutablePointer<StreamSlot>
    ) -> (first: [UInt8], body: ByteBuffer)? {
        let first = UnsafeMutableRawBufferPointer(start: recordCipher.record, count: TLSRecordCipher.maxText)
        var (body, count) = (bytes.body, 0)
        func add(_ piece: UnsafeRawBufferPointer) -> Int {
            let part = UnsafeRawBufferPointer(rebasing: piece.prefix(first.count - count))
            UnsafeMutableRawBufferPointer(rebasing: first[count...]).copyMemory(from: part)
            count += part.count
            return part.count
        }
        bytes.head.withUnsafeReadableBytes { _ = add($0) }
        ending.withUnsafeBytes { _ = add($0) }
        body.moveReaderIndex(forwardBy: bytes.body.withUnsafeReadableBytes(add))
        let sent = put(recordCipher.record, count, on: slot)
        guard sent >= 0 else { return nil }
        guard sent == count else { return (Array(first[sent..<count]), body) }
        guard body.readableBytes > 0 else { return ([], body) }
        let more = body.withUnsafeReadableBytes { put($0.baseAddress!, $0.count, on: slot) }
        guard more >= 0 else { return nil }
        body.moveReaderIndex(forwardBy: more)
        return ([], body)
    }

    /// Gives the socket the buffer of a fetch's answer, or takes it back.
    func makeRoom(_ isWanted: Bool, on slot: UnsafeMutablePointer<StreamSlot>) {
        guard isWanted != slot.pointee.hasRoom else { return }
        slot.pointee.hasRoom = isWanted
        stalecast_set_send_buffer(
            slot.pointee.fd, Int32(isWanted ? StreamEngine.fetchSendBuffer : StreamEngine.sendBuffer))
    }

    /// Meaning of a call that failed with errno: 0 when there is nothing to be done now, -1 when there never will be.
    func blocked() -> Int { errno == EAGAIN ? 0 : -1 }

    /// Looks at a request, as far as it has come and fits into its buffer; over TLS as far as one record goes.
    /// Plain bytes are read: what is not taken of them is in ``input``. Those of a handshake are the Front's.
    ///
    /// - Returns: its bytes, 0 when none is there, -1 when none will ever be.
    func peek(at index: Int32) -> Int {
        let slot = slots[index]
        if case .session(let tls) = slot.pointee.cover { return tls.peek(input.buffer.baseAddress, input.buffer.count) }
        let before = input.resume(index)
        let rest = UnsafeMutableBufferPointer(rebasing: input.buffer[before...])
        let count =
            isTLS
            ? stalecast_peek(slot.pointee.fd, rest.baseAddress, rest.count)
            : stalecast_receive(slot.pointee.fd, rest.baseAddress, rest.count)
        // A socket reports its error once; the bytes that waited before it have no receiver any more.
        if count < 0, blocked() < 0 { return -1 }
        let whole = before + max(0, count)
        if !isTLS { input.keep(whole, of: index) }
        return whole > 0 ? whole : count < 0 ? 0 : -1
    }

    /// Takes the request that ``peek(at:)`` has seen, which is all that has come.
    func take(_ count: Int, of slot: UnsafeMutablePointer<StreamSlot>) {
        if case .session(let tls) = slot.pointee.cover {
            _ = tls.read(input.buffer.baseAddress, count)
        } else {
            input.take()
        }
    }

    /// Nothing a client says on a stream matters, but it must not pile up: the edge comes once for all of it. Over TLS
    /// it may be about keys, or the goodbye. False when the peer ended, or never stops to speak: a record costs us ten
    /// times what it costs the client.
    func discardInput(_ slot: UnsafeMutablePointer<StreamSlot>) -> Bool {
        for _ in 0..<Self.discardsPerEvent {
            let received: Int
            switch slot.pointee.cover {
            case .session(let tls): received = tls.read(input.buffer.baseAddress, input.buffer.count)
            case .records(let records): received = records.read(from: slot.pointee.fd, recordCipher)
            case .plain:
                received = stalecast_discard(slot.pointee.fd, 1 << 16)
                if received < 0 { return errno == EAGAIN }
                // A short read has emptied the socket: what comes later is a new edge.
                if received < 1 << 16 { return received > 0 }
            }
            if received <= 0 { return received == 0 }
            guard slot.pointee.isPlain || slot.pointee.input.heard < Self.maxHeard else { return false }
            if !slot.pointee.isPlain { slot.pointee.input.heard += 1 }
        }
        return false
    }

    /// Times 64 KiB: more than a socket holds by default in the time one event takes.
    private static let discardsPerEvent = 256
    /// Records that a stream's client may send between two writes of ours, of which the heartbeat is one. It has no
    /// reason to send any but those about keys.
    private static let maxHeard: UInt8 = 64

    /// Takes a stream over TLS out of BoringSSL's hands: its object costs 3 kB and a fifth of the CPU. Right after a
    /// write that was taken whole; where it cannot be done all stays as it is.
    func takeOver(_ slot: UnsafeMutablePointer<StreamSlot>) {
        guard case .session(let tls) = slot.pointee.cover, slot.pointee.phase == .stream, !slot.pointee.hasBacklog,
            let records = tls.records()
        else { return }
        slot.pointee.cover = .records(records)
        tls.free()
        audience.tally.takenOver += 1
    }

    /// Frees a slot's TLS. Who was told everything is told that it was all: a stream that just breaks off may have lost
    /// its end to a proxy on the way.
    func letGo(of slot: UnsafeMutablePointer<StreamSlot>, _ reason: DropReason?) {
        let isWhole = !slot.pointee.hasBacklog && slot.pointee.phase != .answering && reason != .peerClosed
        switch slot.pointee.cover {
        case .plain: return
        case .session(let tls):
            if isWhole { tls.sayGoodbye() }
            tls.free()
        case .records(let records):
            if isWhole { records.sayGoodbye(to: slot.pointee.fd, recordCipher) }
            records.free()
        }
        slot.pointee.cover = .plain
    }
}
