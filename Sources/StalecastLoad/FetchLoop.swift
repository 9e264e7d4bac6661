import CLinux
import Foundation

/// One event loop of `load fetch`: connects its clients, sends each one's fetch when it is due, reads the answers.
/// A fetch's time counts from when it was due: a server that keeps some waiting does not hide it from the others.
struct FetchLoop {
    /// Longest time, in nanoseconds, before a loop without work sees that a storm begins or that it shall stop.
    private static let glanceNs: UInt64 = 20_000_000

    private struct Client {
        enum Phase { case connecting, greeting, idle, fetching, closed }

        var descriptor: Int32
        var phase = Phase.connecting
        var reader = FetchReader()
        var fetchesLeft = 0
        var dueAt: UInt64 = 0
    }

    private let plan: FetchPlan
    private let tally: FetchTally
    private let number: Int
    private let share: Range<Int>
    private let inFlightLimit: Int
    private let requests: [[UInt8]]
    private let greeting: [UInt8]
    private var sockets = LoopSockets(inboxBytes: 256 << 10)
    private var clients: [Client] = []
    private var opening = 0
    private var turn = FetchTally.Turn()
    private var storm = FetchTally.Storm()
    /// The next client whose fetch of this storm is to be sent; they are due in order.
    private var nextDue = Int.max
    private var known: [FetchTally.Kind: RunningHash] = [:]

    /// Starts all loops of `plan`; each ends, its connections closed, when the tally's are told to.
    static func startAll(_ plan: FetchPlan, _ tally: FetchTally) {
        tally.loops.start("fetch", (0..<plan.clients).shares(plan.threads)) { number, share in
            var loop = FetchLoop(plan, tally, number: number, share)
            loop.run()
        }
    }

    private init(_ plan: FetchPlan, _ tally: FetchTally, number: Int, _ share: Range<Int>) {
        self.plan = plan
        self.tally = tally
        self.number = number
        self.share = share
        inFlightLimit = max(1, plan.inFlight / plan.threads)
        requests = (0..<plan.template.outcomes).map { plan.request(context: $0) }
        greeting = plan.greeting
        clients.reserveCapacity(share.count)
    }

    private mutating func run() {
        while !tally.loops.isStopped { takeTurn() }
        for client in clients where client.phase != .closed { sockets.disconnect(client.descriptor) }
        sockets.free()
    }

    private mutating func takeTurn() {
        turn.reset(at: stalecast_monotonic_ns())
        if tally.stormNumber != storm.number { beginStorm() }
        openSome()
        sendDue()
        let isOpening = clients.count < share.count && opening < inFlightLimit
        if !isOpening { stalecast_wait_until(sockets.epoll, wakeTime) }
        for (tag, events) in sockets.wait(milliseconds: 0) { ready(Int(tag), events) }
        turn.at = stalecast_monotonic_ns()
        tally.add(turn)
    }

    private var wakeTime: UInt64 {
        let glance = turn.at + Self.glanceNs
        return nextDue < clients.count ? min(glance, clients[nextDue].dueAt) : glance
    }

    // MARK: Connecting

    private mutating func openSome() {
        while opening < inFlightLimit, clients.count < share.count {
            let index = clients.count
            let descriptor = sockets.connect(plan.target, index, number: share.lowerBound + index)
            clients.append(Client(descriptor: descriptor ?? -1))
            opening += 1
            if descriptor == nil { end(index, .system(errno)) }
        }
    }

    // MARK: Fetching

    /// Plans every client's first fetch, evenly over the window; the loops take turns.
    private mutating func beginStorm() {
        storm = tally.storm
        let step = UInt64(plan.window / .nanoseconds(1)) / UInt64(plan.clients)
        for index in clients.indices where clients[index].phase == .idle {
            clients[index].dueAt = storm.beginsAt + step * UInt64(index * plan.threads + number)
            clients[index].fetchesLeft = plan.fetchesPerClient
        }
        nextDue = 0
    }

    private mutating func sendDue() {
        while nextDue < clients.count {
            guard clients[nextDue].phase == .idle, clients[nextDue].fetchesLeft > 0 else {
                nextDue += 1
                continue
            }
            guard clients[nextDue].dueAt <= turn.at else { return }
            fetch(nextDue)
            nextDue += 1
        }
    }

    private mutating func fetch(_ index: Int) {
        clients[index].fetchesLeft -= 1
        send(requests[context(of: index)], index, then: .fetching)
    }

    private func context(of index: Int) -> Int { (share.lowerBound + index) % requests.count }

    private mutating func send(_ request: [UInt8], _ index: Int, then phase: Client.Phase) {
        clients[index].phase = phase
        if let failure = sockets.send(request, clients[index].descriptor) { end(index, failure) }
    }

    // MARK: Receiving

    private mutating func ready(_ index: Int, _ events: UInt32) {
        if clients[index].phase == .connecting {
            let error = LoadTarget.pendingError(clients[index].descriptor)
            if error != 0 { return end(index, .system(error)) }
            guard events & EPOLLOUT.rawValue != 0 else { return }
            send(greeting, index, then: .greeting)
        }
        guard events & ~EPOLLOUT.rawValue != 0 else { return }
        let hasEnded = LoopSockets.tellsEnd(events)
        while clients[index].phase != .closed, read(index, untilEnd: hasEnded) {}
    }

    /// Reads once; true when there may be more, which edge-triggered events would not tell again.
    private mutating func read(_ index: Int, untilEnd: Bool) -> Bool {
        switch sockets.read(clients[index].descriptor) {
        case .end(let reason): end(index, reason)
        case .interrupted: return true
        case .nothing: break
        case .bytes(let bytes, let mayBeMore):
            switch clients[index].reader.receive(bytes) {
            case .incomplete: break
            case .broken: end(index, .broken)
            case .answered(let answer): answered(index, answer)
            }
            return untilEnd || mayBeMore
        }
        return false
    }

    private mutating func answered(_ index: Int, _ answer: FetchReader.Answer) {
        switch clients[index].phase {
        case .greeting:
            guard answer.status == 200 else { return end(index, .status(answer.status)) }
            clients[index].phase = .idle
            opening -= 1
            turn.counts.ready += 1
        case .fetching:
            let now = stalecast_monotonic_ns()
            judge(answer, context: context(of: index), latency: now - min(now, clients[index].dueAt))
            clients[index].phase = .idle
            guard clients[index].fetchesLeft > 0 else { return }
            clients[index].dueAt = now
            fetch(index)
        case .connecting, .idle, .closed: end(index, .broken)
        }
    }

    private mutating func judge(_ answer: FetchReader.Answer, context: Int, latency: UInt64) {
        guard answer.status == 200 else {
            turn.failed += 1
            turn.counts.firstFailure = turn.counts.firstFailure ?? .status(answer.status)
            return
        }
        turn.bytes += answer.byteCount
        guard answer.version >= storm.version else { return turn.stale += 1 }
        turn.latencies.append(latency)
        let kind = FetchTally.Kind(context: context, version: answer.version)
        if let hash = known[kind] {
            if hash != answer.hash { turn.different += 1 }
        } else {
            known[kind] = answer.hash
            turn.kinds[kind] = answer.hash
        }
    }

    private mutating func end(_ index: Int, _ reason: LoadTally.Failure) {
        if clients[index].descriptor >= 0 { sockets.disconnect(clients[index].descriptor) }
        switch clients[index].phase {
        case .connecting, .greeting:
            opening -= 1
            turn.counts.refused += 1
        case .idle, .fetching:
            turn.failed += clients[index].fetchesLeft + (clients[index].phase == .fetching ? 1 : 0)
            turn.counts.dead += 1
        case .closed: return
        }
        clients[index].fetchesLeft = 0
        clients[index].phase = .closed
        if turn.counts.firstFailure == nil { turn.counts.firstFailure = reason }
    }
}
