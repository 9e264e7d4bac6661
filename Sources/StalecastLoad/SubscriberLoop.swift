import CLinux
import Foundation

/// One event loop of the load: connects its subscribers, reads what they receive, tells the tally. It lives on a
/// thread of its own from beginning to end, and allocates nothing per delivery.
struct SubscriberLoop {
    private static let maxEvents = 1024
    private static let inboxBytes = 64 << 10
    /// How soon a loop without input sees that it shall stop, in milliseconds.
    private static let idleTurnMs: Int32 = 50

    private let plan: LoadPlan
    private let tally: LoadTally
    private let share: Range<Int>
    private let inFlightLimit: Int
    private let firstRequest: [UInt8]
    private let epoll: Int32
    private let inbox: UnsafeMutableRawBufferPointer
    private var subscribers: [Subscriber] = []
    private var inFlight = 0
    private var turn = LoadTurn(at: 0, awaited: .max)

    /// Starts all loops of `plan`; each ends, its connections closed, after ``LoadTally/stop()``.
    static func startAll(_ plan: LoadPlan, _ tally: LoadTally) {
        for (number, share) in plan.shares.enumerated() {
            Thread.detachNewThread {
                stalecast_name_thread("load-\(number)")
                var loop = SubscriberLoop(plan, tally, share)
                loop.run()
                tally.loopEnded()
            }
        }
    }

    private init(_ plan: LoadPlan, _ tally: LoadTally, _ share: Range<Int>) {
        self.plan = plan
        self.tally = tally
        self.share = share
        inFlightLimit = max(1, plan.inFlight / plan.threads)
        firstRequest = plan.request()
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        inbox = .allocate(byteCount: Self.inboxBytes, alignment: 16)
        subscribers.reserveCapacity(share.count)
    }

    private mutating func run() {
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.maxEvents) { events in
            while !tally.isStopped { takeTurn(events) }
        }
        for subscriber in subscribers where subscriber.phase != .closed { close(subscriber.descriptor) }
        close(epoll)
        inbox.deallocate()
    }

    private mutating func takeTurn(_ events: UnsafeMutableBufferPointer<epoll_event>) {
        turn = LoadTurn(at: stalecast_monotonic_ns(), awaited: tally.awaitedVersion)
        openSome()
        let isOpening = subscribers.count < share.count && inFlight < inFlightLimit
        let count = epoll_wait(epoll, events.baseAddress, Int32(Self.maxEvents), isOpening ? 0 : Self.idleTurnMs)
        turn.at = stalecast_monotonic_ns()
        turn.awaited = tally.awaitedVersion
        for position in 0..<max(0, Int(count)) {
            let tag = withUnsafePointer(to: &events[position]) { stalecast_event_tag($0) }
            ready(Int(tag), events[position].events)
        }
        tally.add(turn)
    }

    // MARK: Connecting

    private mutating func openSome() {
        while inFlight < inFlightLimit, subscribers.count < share.count {
            let index = subscribers.count
            let descriptor = open(index)
            subscribers.append(Subscriber(descriptor: descriptor))
            inFlight += 1
            if descriptor < 0 || stalecast_epoll_add(epoll, descriptor, UInt64(index)) != 0 {
                end(index, .system(errno))
            }
        }
    }

    /// A socket that is connecting; -1 with `errno` set.
    private func open(_ index: Int) -> Int32 {
        let descriptor = LoadSocket.open(plan.target.family)
        guard descriptor >= 0 else { return -1 }
        let source = UInt32(2 + (share.lowerBound + index) / LoadPlan.connectionsPerSource)
        let isBound = !plan.target.hasManySources || LoadSocket.bindToLoopback(descriptor, number: source) == 0
        if isBound, LoadSocket.startConnecting(descriptor, to: plan.target.socketAddress) == 0 || errno == EINPROGRESS {
            return descriptor
        }
        let error = errno
        close(descriptor)
        errno = error
        return -1
    }

    private mutating func send(_ request: [UInt8], _ index: Int) {
        let sent = request.withUnsafeBytes { stalecast_send(subscribers[index].descriptor, $0.baseAddress, $0.count) }
        // An empty socket buffer takes a request whole; anything else is an error.
        if sent == request.count { subscribers[index].phase = .awaitingHead } else { end(index, .system(errno)) }
    }

    // MARK: Receiving

    private mutating func ready(_ index: Int, _ events: UInt32) {
        if subscribers[index].phase == .connecting {
            let error = LoadSocket.pendingError(subscribers[index].descriptor)
            if error != 0 { return end(index, .system(error)) }
            guard events & EPOLLOUT.rawValue != 0 else { return }
            send(firstRequest, index)
        }
        guard events & ~EPOLLOUT.rawValue != 0 else { return }
        let hasEnded = events & (EPOLLRDHUP.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
        while subscribers[index].phase != .closed, read(index, untilEnd: hasEnded) {}
    }

    /// Reads once; true when there may be more, which edge-triggered events would not tell again.
    private mutating func read(_ index: Int, untilEnd: Bool) -> Bool {
        let count = recv(subscribers[index].descriptor, inbox.baseAddress, inbox.count, 0)
        guard count > 0 else {
            if count == 0 {
                end(index, .ended)
            } else if errno != EAGAIN && errno != EINTR {
                end(index, .system(errno))
            }
            return count < 0 && errno == EINTR
        }
        receive(Bytes(rebasing: UnsafeRawBufferPointer(inbox)[..<count]), index)
        // A short read has emptied the socket, later input is a new edge; an end that was told already is not.
        return untilEnd || count == inbox.count
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
        case .refused(let status): end(index, .status(status))
        case .ended: end(index, .ended)
        case .broken: end(index, .broken)
        }
    }

    private mutating func becomeReady() {
        inFlight -= 1
        turn.counts.ready += 1
        turn.counts.lastReadyAt = turn.at
    }

    private mutating func end(_ index: Int, _ reason: LoadFailure) {
        if subscribers[index].descriptor >= 0 { close(subscribers[index].descriptor) }
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
