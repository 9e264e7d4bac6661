import CLinux
import Foundation
package import StalecastWire
import Synchronization

/// One event loop of receivers: accepts what the daemon connects, reads its requests, answers 204, tells the tally.
package struct ReceiverLoop {
    /// Longest time, in milliseconds, before a loop without input sees that it shall stop.
    private static let idleTurnMs: Int32 = 50
    private static let answer = Array("HTTP/1.1 204 No Content\r\n\r\n".utf8)
    /// Tags of connections, so that they are not taken for listeners.
    private static let connectionBit: UInt64 = 1 << 40

    private let listeners: ArraySlice<WebhookPlan.Listener>
    private let tally: LoadTally
    private let counts: Tally
    private var sockets = LoopSockets(inboxBytes: 64 << 10)
    private var newest: [Int64]
    private var connections: [Connection] = []
    private var free: [Int] = []
    private var reader: RequestReader
    private var turn = LoadTally.Turn(at: 0, awaited: .max)
    private var seen = Tally.Counts()

    private struct Connection {
        var descriptor: Int32
        let receiver: Int
        /// The beginning of a request that is not whole yet.
        var pending: [UInt8] = []
    }

    /// Starts all loops of `plan`; each ends, its sockets closed, when the tally's are told to.
    package static func startAll(
        _ plan: WebhookPlan, _ listeners: [WebhookPlan.Listener], _ tally: LoadTally, _ counts: Tally
    ) {
        tally.loops.start("receive", (0..<plan.total).shares(plan.threads)) { _, share in
            var loop = ReceiverLoop(plan, listeners[share], tally, counts)
            loop.run()
        }
    }

    private init(
        _ plan: WebhookPlan, _ listeners: ArraySlice<WebhookPlan.Listener>, _ tally: LoadTally, _ counts: Tally
    ) {
        (self.listeners, self.tally, self.counts) = (listeners, tally, counts)
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
        seen = Tally.Counts()
        for (tag, _) in events {
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

    /// Counts of all receivers; the loops write them once per turn.
    package final class Tally: Sendable {
        package init() {}

        package struct Counts: Sendable, Equatable {
            package init() {}

            package var requests = 0
            /// Accepted; as many as receivers when every connection is used again.
            package var connections = 0
            /// Deliveries of a version that the receiver already had. They are allowed, but each costs a request.
            package var repeated = 0
            /// An older version after a newer one, which must not be.
            package var backwards = 0
        }

        private let counted = Mutex(Counts())

        package var counts: Counts { counted.withLock { $0 } }

        package func add(_ other: Counts) {
            guard other != Counts() else { return }
            counted.withLock {
                $0.requests += other.requests
                $0.connections += other.connections
                $0.repeated += other.repeated
                $0.backwards += other.backwards
            }
        }
    }

    /// Finds whole requests of webhooks in what was received.
    package struct RequestReader {
        /// Longest request; the daemon sends no longer ones.
        package static let maxBytes = 256 << 10

        private let namespace: [UInt8]

        package init(namespace: Namespace) { self.namespace = Array("\"namespace\":\"\(namespace)\"".utf8) }

        package struct Request: Equatable {
            package let byteCount: Int
            /// Version of the namespace; 0 when the request is about something else.
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
}
