import CLinux
import Foundation

/// One event loop of the load: connects its subscribers, reads what they receive, tells the tally. It lives on a
/// thread of its own from beginning to end, and allocates nothing per delivery.
struct SubscriberLoop {
    /// Longest time, in milliseconds, before a loop without input sees that it shall stop.
    private static let idleTurnMs: Int32 = 50

    private let plan: LoadPlan
    private let tally: LoadTally
    private let share: Range<Int>
    private let inFlightLimit: Int
    private let firstRequest: [UInt8]
    private var sockets = LoopSockets(inboxBytes: 64 << 10)
    private var subscribers: [Subscriber] = []
    private var inFlight = 0
    private var turn = LoadTally.Turn(at: 0, awaited: .max)

    /// Starts all loops of `plan`; each ends, its connections closed, when the tally's are told to.
    static func startAll(_ plan: LoadPlan, _ tally: LoadTally) {
        tally.loops.start("load", (0..<plan.subscribers).shares(plan.threads)) { _, share in
            var loop = SubscriberLoop(plan, tally, share)
            loop.run()
        }
    }

    private init(_ plan: LoadPlan, _ tally: LoadTally, _ share: Range<Int>) {
        (self.plan, self.tally, self.share) = (plan, tally, share)
        inFlightLimit = max(1, plan.inFlight / plan.threads)
        firstRequest = plan.request()
        subscribers.reserveCapacity(share.count)
    }

    private mutating func run() {
        while !tally.loops.isStopped { takeTurn() }
        for subscriber in subscribers where subscriber.phase != .closed { sockets.disconnect(subscriber.descriptor) }
        sockets.free()
    }

    private mutating func takeTurn() {
        turn = LoadTally.Turn(at: stalecast_monotonic_ns(), awaited: tally.awaitedVersion)
        openSome()
        let isOpening = subscribers.count < share.count && inFlight < inFlightLimit
        let ready = sockets.wait(milliseconds: isOpening ? 0 : Self.idleTurnMs)
        turn.at = stalecast_monotonic_ns()
        turn.awaited = tally.awaitedVersion
        for (tag, events) in ready { self.ready(Int(tag), events) }
        tally.add(turn)
    }

    // MARK: Connecting

    private mutating func openSome() {
        while inFlight < inFlightLimit, subscribers.count < share.count {
            let index = subscribers.count
            let descriptor = sockets.connect(plan.target, index, number: share.lowerBound + index)
            subscribers.append(Subscriber(descriptor: descriptor ?? -1))
            inFlight += 1
            if descriptor == nil { end(index, .system(errno)) }
        }
    }

    private mutating func send(_ request: [UInt8], _ index: Int) {
        subscribers[index].phase = .awaitingHead
        if let failure = sockets.send(request, subscribers[index].descriptor) { end(index, failure) }
    }

    // MARK: Receiving

    private mutating func ready(_ index: Int, _ events: UInt32) {
        if subscribers[index].phase == .connecting {
            let error = LoadTarget.pendingError(subscribers[index].descriptor)
            if error != 0 { return end(index, .system(error)) }
            guard events & EPOLLOUT.rawValue != 0 else { return }
            send(firstRequest, index)
        }
        guard events & ~EPOLLOUT.rawValue != 0 else { return }
        // The end is an edge of its own, told once: what came before it must be read now.
        let hasEnded = LoopSockets.tellsEnd(events)
        while subscribers[index].phase != .closed, read(index, untilEnd: hasEnded) {}
    }

    /// Reads once; true when there may be more, which edge-triggered events would not tell again.
    private mutating func read(_ index: Int, untilEnd: Bool) -> Bool {
        switch sockets.read(subscribers[index].descriptor) {
        case .end(let reason): end(index, reason)
        case .interrupted: return true
        case .nothing: break
        case .bytes(let bytes, let mayBeMore):
            receive(bytes, index)
            return untilEnd || mayBeMore
        }
        return false
    }

    private mutating func receive(_ bytes: Bytes, _ index: Int) {
        let (version, heartbeats) = (subscribers[index].newestVersion, subscribers[index].heartbeats)
        let wasReady = subscribers[index].isReady
        let progress = subscribers[index].receive(bytes, plan.transport)
        turn.counts.heartbeats += subscribers[index].heartbeats - heartbeats
        if !wasReady, subscribers[index].isReady { becomeReady() }
        if wasReady, version < turn.awaited, subscribers[index].newestVersion >= turn.awaited { turn.arrivals += 1 }
        switch progress {
        case .nothing: break
        case .answered: send(plan.request(cursor: subscribers[index].cursor), index)
        case .end(let reason): end(index, reason)
        }
    }

    private mutating func becomeReady() {
        inFlight -= 1
        turn.counts.ready += 1
        turn.counts.lastReadyAt = turn.at
    }

    private mutating func end(_ index: Int, _ reason: LoadTally.Failure) {
        if subscribers[index].descriptor >= 0 { sockets.disconnect(subscribers[index].descriptor) }
        subscribers[index].phase = .closed
        if subscribers[index].isReady {
            turn.counts.dead += 1
            if subscribers[index].newestVersion < turn.awaited { turn.lost += 1 }
        } else {
            inFlight -= 1
            turn.counts.refused += 1
        }
        if turn.counts.firstFailure == nil { turn.counts.firstFailure = reason }
    }
}
