import CLinux
import Foundation
package import StalecastWire

/// One event loop of receivers: accepts what the daemon connects, reads its requests, answers 204, tells the tally.
package struct ReceiverLoop {
    private static let maxEvents = 1024
    private static let inboxBytes = 64 << 10
    /// How soon a loop without input sees that it shall stop, in milliseconds.
    private static let idleTurnMs: Int32 = 50
    private static let answer = Array("HTTP/1.1 204 No Content\r\n\r\n".utf8)
    /// Tags of connections, so that they are not taken for listeners.
    private static let connectionBit: UInt64 = 1 << 40

    private let listeners: ArraySlice<WebhookListener>
    private let tally: LoadTally
    private let counts: ReceiverTally
    private let epoll: Int32
    private let inbox: UnsafeMutableRawBufferPointer
    private var newest: [Int64]
    private var connections: [Connection] = []
    private var free: [Int] = []
    private var reader: WebhookRequestReader
    private var turn = LoadTurn(at: 0, awaited: .max)
    private var seen = ReceiverTally.Counts()

    private struct Connection {
        var descriptor: Int32
        let receiver: Int
        /// The beginning of a request that is not whole yet.
        var pending: [UInt8] = []
    }

    /// Starts all loops of `plan`; each ends, its sockets closed, after ``LoadTally/stop()``.
    package static func startAll(
        _ plan: WebhookPlan, _ listeners: [WebhookListener], _ tally: LoadTally, _ counts: ReceiverTally
    ) {
        for (number, share) in plan.shares.enumerated() {
            Thread.detachNewThread {
                stalecast_name_thread("receive-\(number)")
                var loop = ReceiverLoop(plan, listeners[share], tally, counts)
                loop.run()
                tally.loopEnded()
            }
        }
    }

    private init(
        _ plan: WebhookPlan, _ listeners: ArraySlice<WebhookListener>, _ tally: LoadTally, _ counts: ReceiverTally
    ) {
        self.listeners = listeners
        self.tally = tally
        self.counts = counts
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        inbox = .allocate(byteCount: Self.inboxBytes, alignment: 16)
        newest = Array(repeating: 0, count: listeners.count)
        reader = WebhookRequestReader(namespace: plan.scope.namespace)
        turn.counts.ready = listeners.filter(\.answers).count
        for (position, listener) in listeners.enumerated() {
            _ = stalecast_epoll_add_level(epoll, listener.descriptor, UInt64(position))
        }
    }

    private mutating func run() {
        tally.add(turn)
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.maxEvents) { events in
            while !tally.isStopped { takeTurn(events) }
        }
        for connection in connections where connection.descriptor >= 0 { close(connection.descriptor) }
        for listener in listeners { close(listener.descriptor) }
        close(epoll)
        inbox.deallocate()
    }

    private mutating func takeTurn(_ events: UnsafeMutableBufferPointer<epoll_event>) {
        let count = epoll_wait(epoll, events.baseAddress, Int32(Self.maxEvents), Self.idleTurnMs)
        turn = LoadTurn(at: stalecast_monotonic_ns(), awaited: tally.awaitedVersion)
        seen = ReceiverTally.Counts()
        for position in 0..<max(0, Int(count)) {
            let tag = withUnsafePointer(to: &events[position]) { stalecast_event_tag($0) }
            if tag < Self.connectionBit { accept(Int(tag)) } else { ready(Int(tag - Self.connectionBit)) }
        }
        tally.add(turn)
        counts.add(seen)
    }

    private mutating func accept(_ receiver: Int) {
        var address: UInt64 = 0
        let descriptor = stalecast_accept(listeners[listeners.startIndex + receiver].descriptor, &address)
        guard descriptor >= 0 else { return }
        seen.connections += 1
        let slot = free.popLast() ?? connections.count
        let connection = Connection(descriptor: descriptor, receiver: receiver)
        if slot == connections.count { connections.append(connection) } else { connections[slot] = connection }
        if stalecast_epoll_add(epoll, descriptor, Self.connectionBit + UInt64(slot)) != 0 { end(slot) }
    }

    private mutating func ready(_ slot: Int) {
        while connections[slot].descriptor >= 0 {
            let count = recv(connections[slot].descriptor, inbox.baseAddress, inbox.count, 0)
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN { return }
            guard count > 0 else { return end(slot) }
            receive(Bytes(rebasing: UnsafeRawBufferPointer(inbox)[..<count]), slot)
        }
    }

    private mutating func receive(_ bytes: Bytes, _ slot: Int) {
        guard listeners[listeners.startIndex + connections[slot].receiver].answers else { return }
        if connections[slot].pending.isEmpty {
            let used = take(bytes, slot)
            if used < bytes.count { connections[slot].pending = Array(bytes[used...]) }
            return
        }
        var pending = connections[slot].pending + bytes
        let used = pending.withUnsafeBytes { take($0, slot) }
        pending.removeFirst(used)
        if pending.count > WebhookRequestReader.maxBytes { return end(slot) }
        connections[slot].pending = pending
    }

    /// Answers every whole request in `bytes`; how many bytes they were.
    private mutating func take(_ bytes: Bytes, _ slot: Int) -> Int {
        var used = 0
        while let request = reader.read(bytes.part(used..<bytes.count)) {
            used += request.byteCount
            count(request.version, connections[slot].receiver)
            let sent = Self.answer.withUnsafeBytes {
                stalecast_send(connections[slot].descriptor, $0.baseAddress, $0.count)
            }
            if sent != Self.answer.count { end(slot) }
        }
        return used
    }

    /// - Parameter version: 0 for a request that is about something else.
    private mutating func count(_ version: Int64, _ receiver: Int) {
        seen.requests += 1
        guard version > 0 else { return }
        let before = newest[receiver]
        if version == before { seen.repeated += 1 }
        if version < before { seen.backwards += 1 }
        if before < turn.awaited, version >= turn.awaited { turn.arrivals += 1 }
        newest[receiver] = max(before, version)
    }

    private mutating func end(_ slot: Int) {
        if connections[slot].descriptor >= 0 {
            close(connections[slot].descriptor)
            free.append(slot)
        }
        connections[slot].descriptor = -1
        connections[slot].pending = []
    }
}

/// Finds whole requests of webhooks in what was received.
package struct WebhookRequestReader {
    /// A longer request is none of ours.
    package static let maxBytes = 256 << 10

    private let namespace: [UInt8]

    package init(namespace: Namespace) { self.namespace = Array("\"namespace\":\"\(namespace)\"".utf8) }

    package struct Request: Equatable {
        package let byteCount: Int
        /// Of the namespace; 0 when the request is about something else.
        package let version: Int64

        package init(byteCount: Int, version: Int64) {
            self.byteCount = byteCount
            self.version = version
        }
    }

    /// The first request; nil while it is not whole.
    package func read(_ bytes: Bytes) -> Request? {
        guard let bodyStart = bytes.position(after: "\r\n\r\n", anchor: 1) else { return nil }
        let head = bytes.part(0..<bodyStart)
        let length =
            head.position(after: "\r\nContent-Length: ", anchor: 2)
            ?? head.position(after: "\r\ncontent-length: ", anchor: 2)
        let end = bodyStart + Int(length.map { head.number(at: $0) } ?? 0)
        guard end <= bytes.count else { return nil }
        let body = bytes.part(bodyStart..<end)
        return Request(byteCount: end, version: isAboutNamespace(body) ? body.newestVersion : 0)
    }

    private func isAboutNamespace(_ body: Bytes) -> Bool {
        var next = 0
        while let found = body.position(of: namespace[0], from: next) {
            if body[found...].starts(with: namespace) { return true }
            next = found + 1
        }
        return false
    }
}
