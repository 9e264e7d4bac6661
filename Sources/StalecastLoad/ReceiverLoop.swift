import CLinux
import Foundation
package import StalecastWire

/// One event loop of receivers: accepts what the daemon connects, reads its requests, answers 204, tells the tally.
package struct ReceiverLoop {
    /// Longest time, in milliseconds, before a loop without input sees that it shall stop.
    private static let idleTurnMs: Int32 = 50
    private static let answer = Array("HTTP/1.1 204 No Content\r\n\r\n".utf8)
    /// Tags of connections, so that they are not taken for listeners.
    private static let connectionBit: UInt64 = 1 << 40

    private let listeners: ArraySlice<WebhookPlan.Listener>
    private let tally: LoadTally
    private var sockets = LoopSockets(inboxBytes: 64 << 10)
    private var newest: [Int64]
    private var connections: [Connection] = []
    private var free: [Int] = []
    private var reader: RequestReader
    private var turn = LoadTally.Turn(at: 0, awaited: .max)

    private struct Connection {
        var descriptor: Int32
        let receiver: Int
        /// The beginning of a request that is not whole yet.
        var pending: [UInt8] = []
    }

    /// Starts all loops of `plan`; each ends, its sockets closed, when the tally's are told to.
    package static func startAll(_ plan: WebhookPlan, _ listeners: [WebhookPlan.Listener], _ tally: LoadTally) {
        tally.loops.start("receive", (0..<plan.total).shares(plan.threads)) { _, share in
            var loop = ReceiverLoop(plan, listeners[share], tally)
            loop.run()
        }
    }

    private init(_ plan: WebhookPlan, _ listeners: ArraySlice<WebhookPlan.Listener>, _ tally: LoadTally) {
        (self.listeners, self.tally) = (listeners, tally)
        newest = Array(repeating: 0, count: listeners.count)
        reader = RequestReader(namespace: plan.scope.namespace)
        turn.counts.ready = listeners.filter(\.answers).count
        for (position, listener) in listeners.enumerated() {
            _ = stalecast_epoll_add_level(sockets.epoll, listener.descriptor, UInt64(position))
        }
    }

    private mutating func run() {
        tally.add(turn)
        while !tally.loops.isStopped { takeTurn() }
        for connection in connections where connection.descriptor >= 0 { close(connection.descriptor) }
        for listener in listeners { close(listener.descriptor) }
        sockets.free()
    }

    private mutating func takeTurn() {
        let events = sockets.wait(milliseconds: Self.idleTurnMs)
        turn = LoadTally.Turn(at: stalecast_monotonic_ns(), awaited: tally.awaitedVersion)
        for (tag, _) in events {
            if tag < Self.connectionBit { accept(Int(tag)) } else { ready(Int(tag - Self.connectionBit)) }
        }
        tally.add(turn)
    }

    private mutating func accept(_ receiver: Int) {
        var address: UInt64 = 0
        let descriptor = stalecast_accept(listeners[listeners.startIndex + receiver].descriptor, &address)
        guard descriptor >= 0 else { return }
        turn.counts.connections += 1
        let slot = free.popLast() ?? connections.count
        let connection = Connection(descriptor: descriptor, receiver: receiver)
        if slot == connections.count { connections.append(connection) } else { connections[slot] = connection }
        if stalecast_epoll_add(sockets.epoll, descriptor, Self.connectionBit + UInt64(slot)) != 0 { end(slot) }
    }

    private mutating func ready(_ slot: Int) {
        while connections[slot].descriptor >= 0 {
            switch sockets.read(connections[slot].descriptor) {
            case .bytes(let bytes, _): receive(bytes, slot)
            case .interrupted: continue
            case .nothing: return
            case .end: return end(slot)
            }
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
        if pending.count > RequestReader.maxBytes { return end(slot) }
        connections[slot].pending = pending
    }

    /// Answers every whole request in `bytes`; how many bytes they were.
    private mutating func take(_ bytes: Bytes, _ slot: Int) -> Int {
        var used = 0
        while let request = reader.read(bytes.part(used..<bytes.count)) {
            used += request.byteCount
            count(request.version, connections[slot].receiver)
            if sockets.send(Self.answer, connections[slot].descriptor) != nil { end(slot) }
        }
        return used
    }

    /// - Parameter version: 0 for a request that is about something else.
    private mutating func count(_ version: Int64, _ receiver: Int) {
        turn.counts.requests += 1
        guard version > 0 else { return }
        let before = newest[receiver]
        if version == before { turn.counts.repeated += 1 }
        if version < before { turn.counts.backwards += 1 }
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

    /// Finds whole requests of webhooks in what was received.
    package struct RequestReader {
        /// Longest request; the daemon sends no longer ones.
        package static let maxBytes = 256 << 10

        private let namespace: [UInt8]

        package init(namespace: Namespace) { self.namespace = Array("\"namespace\":\"\(namespace)\"".utf8) }

        /// Length of the first request, and its version of the namespace, 0 for one about something else; nil while the request
        /// is not whole.
        package func read(_ bytes: Bytes) -> (byteCount: Int, version: Int64)? {
            guard let bodyStart = bytes.position(after: "\r\n\r\n", anchor: 1) else { return nil }
            let head = bytes.part(0..<bodyStart)
            let length =
                head.position(after: "\r\nContent-Length: ", anchor: 2)
                ?? head.position(after: "\r\ncontent-length: ", anchor: 2)
            let end = bodyStart + Int(length.map { head.number(at: $0) } ?? 0)
            guard end <= bytes.count else { return nil }
            let body = bytes.part(bodyStart..<end)
            return (end, isAboutNamespace(body) ? body.newestVersion : 0)
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
}
