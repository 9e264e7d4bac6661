import CCurl
import CLinux
import Glibc
import Logging
import Synchronization

/// The engine's thread: libcurl's multi handle over epoll. Only `give`, `nextNumber`, `isCurrent` and `figures` are
/// for other threads; everything else belongs to the thread that is in `run`.
final class OutboundLoop: @unchecked Sendable {
    let figures = Mutex(OutboundFigures())
    private let configuration: OutboundConfiguration
    private let logger: Logger
    private let inbox = LoopInbox()
    private let numbers = Atomic<UInt64>(1)
    private let thread = Atomic<UInt>(0)

    private let epoll: Int32
    private var shelves: [CurlShelf]
    /// Shared by all shelves; freed after them.
    private let lookups: UnsafeMutablePointer<stalecast_lookups>
    /// Those of the shelves.
    private let curls: [UnsafeMutablePointer<stalecast_curl>]
    private var timers = TimerHeap()
    private var running: [OutboundTicket: RunningRequest] = [:]
    /// Requests that wait for a place.
    private var waiting = WaitingLine()
    /// Requests that wait until fewer host names are being looked up.
    private var unresolved = WaitingLine()
    /// What commands of the thread itself wait for, when it gives them to itself.
    private var own: [LoopInbox.Command] = []
    private var tally = OutboundFigures()
    private var ending: (deadline: UInt64, done: [@Sendable () -> Void])?

    init(_ configuration: OutboundConfiguration, _ logger: Logger) throws(OutboundStartError) {
        let isPrepared = stalecast_curl_prepare()
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        let lookups = UnsafeMutablePointer<stalecast_lookups>.allocate(capacity: 1)
        lookups.initialize(to: stalecast_lookups(count: 0, most: Int32(clamping: configuration.maxLookups)))
        self.lookups = lookups
        let shelves = (0..<CurlShelf.count).compactMap { CurlShelf(epoll: epoll, number: $0, lookups, configuration) }
        guard isPrepared, shelves.count == CurlShelf.count, epoll >= 0, inbox.bell >= 0,
            stalecast_epoll_add_level(epoll, inbox.bell, UInt64(inbox.bell)) == 0
        else { throw OutboundStartError(description: "libcurl cannot be started: no memory or no descriptors left") }
        self.epoll = epoll
        self.shelves = shelves
        curls = shelves.map(\.curl)
        self.configuration = configuration
        self.logger = logger
    }

    deinit {
        // Their easy handles first.
        shelves = []
        curls.forEach(stalecast_curl_free)
        lookups.deallocate()
        close(epoll)
        close(inbox.bell)
    }

    var isCurrent: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

    func nextNumber() -> UInt64 { numbers.wrappingAdd(1, ordering: .relaxed).oldValue }

    func give(_ command: LoopInbox.Command) {
        if isCurrent {
            own.append(command)
        } else if !inbox.put(command) {
            refuse(command)
        }
    }

    func run() {
        thread.store(UInt(pthread_self()), ordering: .relaxed)
        var events = [epoll_event](repeating: epoll_event(), count: 256)
        while !isOver {
            let begin = stalecast_monotonic_ns()
            turn(begin)
            report(begin)
            // Told to end with nothing under way: there is nothing to wait for.
            if isOver { break }
            wait(&events)
        }
        end()
    }

    /// One round of everything that can be done without waiting.
    private func turn(_ now: UInt64) {
        inbox.take().forEach(obey)
        obeyOwn()
        // What these bodies ask to be done at once is done in the next round, after a look at the sockets.
        let due = stalecast_monotonic_ns()
        while let body = timers.takeDue(due) {
            body()
            obeyOwn()
        }
        let now = stalecast_monotonic_ns()
        for curl in curls where curl.pointee.deadline <= now { stalecast_curl_time(curl) }
        finish()
    }

    private func obeyOwn() {
        while !own.isEmpty {
            let commands = own
            own = []
            commands.forEach(obey)
        }
    }

    private func wait(_ events: inout [epoll_event]) {
        let timeout = own.isEmpty && inbox.fallAsleep() ? millisecondsToWait() : 0
        let count = events.withUnsafeMutableBufferPointer {
            epoll_wait(epoll, $0.baseAddress, Int32($0.count), timeout)
        }
        for index in 0..<Int(max(0, count)) {
            let tag = stalecast_event_tag(&events[index])
            let descriptor = Int32(truncatingIfNeeded: tag)
            if descriptor == inbox.bell {
                stalecast_drain(inbox.bell)
            } else {
                stalecast_curl_socket(curls[Int(tag >> 32)], descriptor, events[index].events)
            }
        }
    }

    /// Until libcurl's deadline, the first timer, or the end; -1 for ever.
    private func millisecondsToWait() -> Int32 {
        let due = curls.reduce(UInt64.max) { min($0, $1.pointee.deadline) }
        let next = min(due, timers.next() ?? .max, ending?.deadline ?? .max)
        guard next != .max else { return -1 }
        let now = stalecast_monotonic_ns()
        return next <= now ? 0 : Int32(min((next - now + 999_999) / 1_000_000, 60_000))
    }

    private func obey(_ command: LoopInbox.Command) {
        switch command {
        case .start(let request): admit(request)
        case .cancel(let ticket): cancel(ticket)
        case .perform(let body): body()
        case .at(let time, let timer, let body): timers.add(time, timer.number, body)
        case .cancelTimer(let timer): timers.cancel(timer.number)
        case .shutdown(let grace, let done):
            let deadline = stalecast_monotonic_ns() + UInt64(max(0, grace.milliseconds)) * 1_000_000
            ending = (min(deadline, ending?.deadline ?? .max), (ending?.done ?? []) + [done])
        }
    }
}

// MARK: - Requests

extension OutboundLoop {
    private func admit(_ request: RunningRequest) {
        guard ending == nil else { return conclude(request, .failed(OutboundFailure(.cancelled))) }
        if running.count >= configuration.maxInFlight {
            waiting.append(request)
        } else if needsLookup(request), !canLookUp {
            unresolved.append(request)
        } else {
            start(request)
        }
    }

    private var canLookUp: Bool { lookups.pointee.count < lookups.pointee.most }

    /// By likelihood, which decides who is started. What is started and turns out to need a lookup although there is
    /// room for none comes back, see ``complete(_:_:)``.
    private func needsLookup(_ request: RunningRequest) -> Bool {
        request.request.url.addressLiteral == nil
            && !shelves[CurlShelf.number(of: request.request.url)].pool.isWarm(request.request.handleKey)
    }

    private func start(_ request: RunningRequest) {
        let shelf = CurlShelf.number(of: request.request.url)
        guard let handle = shelves[shelf].pool.take(request.request.handleKey) else {
            return conclude(request, .failed(OutboundFailure(.other, detail: "out of memory")))
        }
        do {
            try request.take(handle, at: stalecast_monotonic_ns())
        } catch {
            // The handle is not given back: it may be half set, with the last request's certificates.
            return conclude(request, .failed(error))
        }
        let isLookup = !handle.isWarm && request.request.url.addressLiteral == nil
        if isLookup { stalecast_transfer_begin_lookup(handle.transfer) }
        guard stalecast_curl_add(curls[shelf], handle.easy) else {
            stalecast_transfer_end_lookup(handle.transfer)
            request.handle = nil
            return conclude(request, .failed(OutboundFailure(.other, detail: "libcurl takes no request")))
        }
        running[request.ticket] = request
    }

    private func cancel(_ ticket: OutboundTicket) {
        if let request = running[ticket] {
            request.isCancelled = true
            complete(request, CURLE_ABORTED_BY_CALLBACK)
        } else if let request = waiting.remove(ticket) ?? unresolved.remove(ticket) {
            conclude(request, .failed(OutboundFailure(.cancelled)))
        }
    }

    /// Takes what libcurl has finished, and starts what waited for its place.
    private func finish() {
        var code = CURLE_OK
        for curl in curls {
            while let easy = stalecast_curl_next(curl, &code) {
                guard let context = stalecast_easy_transfer(easy).pointee.context else { continue }
                complete(Unmanaged<RunningRequest>.fromOpaque(context).takeUnretainedValue(), code)
            }
        }
        while running.count < configuration.maxInFlight, canLookUp,
            let request = unresolved.takeFirst()
        { start(request) }
        while running.count < configuration.maxInFlight, let request = waiting.takeFirst() { admit(request) }
    }

    private func complete(_ request: RunningRequest, _ code: CURLcode) {
        running[request.ticket] = nil
        let isHeldBack = request.handle?.transfer.pointee.held_back == true && !request.isCancelled
        let outcome = request.outcome(code)
        if let handle = request.handle {
            if isHeldBack { stalecast_transfer_forget_peer(handle.transfer) } else { count(outcome, handle) }
            stalecast_transfer_end_lookup(handle.transfer)
            let shelf = Int(handle.transfer.pointee.curl.pointee.number)
            stalecast_curl_remove(curls[shelf], handle.easy)
            handle.transfer.pointee.context = nil
            request.handle = nil
            shelves[shelf].pool.give(handle)
        }
        // Its connection was gone after all, and every lookup that is allowed is under way.
        if isHeldBack, ending == nil { return unresolved.append(request) }
        request.completion(outcome)
        obeyOwn()
    }

    private func conclude(_ request: RunningRequest, _ result: OutboundOutcome.Result) {
        request.completion(OutboundOutcome(result: result))
    }

    /// After the end.
    private func refuse(_ command: LoopInbox.Command) {
        switch command {
        case .start(let request): conclude(request, .failed(OutboundFailure(.cancelled)))
        case .perform(let body): body()
        case .shutdown(_, let done): done()
        case .cancel, .at, .cancelTimer: break
        }
    }
}

// MARK: - Figures and the end

extension OutboundLoop {
    private func count(_ outcome: OutboundOutcome, _ handle: EasyHandle) {
        tally.requests += 1
        if outcome.reusedConnection { tally.reusedConnections += 1 } else { tally.newConnections += 1 }
        if handle.transfer.pointee.blocked { tally.blocked += 1 }
    }

    private func report(_ begin: UInt64) {
        tally.longestTurn = max(tally.longestTurn, stalecast_monotonic_ns() - begin)
        tally.inFlight = running.count
        tally.waiting = waiting.count + unresolved.count
        tally.handles = shelves.reduce(running.count) { $0 + $1.pool.count }
        tally.handshakes = curls.reduce(0) { $0 + $1.pointee.handshakes }
        tally.resumedHandshakes = curls.reduce(0) { $0 + $1.pointee.resumed }
        tally.connections = curls.reduce(0) { $0 + Int($1.pointee.sockets) }
        tally.lookups = Int(lookups.pointee.count)
        tally.cpu = stalecast_thread_cpu_ns()
        figures.withLock { $0 = tally }
    }

    private var isOver: Bool {
        guard let ending else { return false }
        return running.isEmpty && waiting.count + unresolved.count == 0 || ending.deadline <= stalecast_monotonic_ns()
    }

    private func end() {
        for request in Array(running.values) {
            request.isCancelled = true
            complete(request, CURLE_ABORTED_BY_CALLBACK)
        }
        while let request = waiting.takeFirst() ?? unresolved.takeFirst() {
            conclude(request, .failed(OutboundFailure(.cancelled)))
        }
        for index in shelves.indices { shelves[index].pool.empty() }
        let left = own + inbox.close()
        own = []
        thread.store(0, ordering: .relaxed)
        left.forEach(refuse)
        ending?.done.forEach { $0() }
    }
}
