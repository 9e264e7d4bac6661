import StalecastWire
import CCurl
import CLinux
import DequeModule
import Foundation
import Synchronization

/// The engine's thread: libcurl's multi handle over epoll. Only `give`, `nextNumber`, `now`, `isCurrent` and `figures` are
/// for other threads; everything else belongs to the thread that is in `run`.
final class OutboundLoop: @unchecked Sendable {
    let figures = Mutex(OutboundEngine.Figures())
    private let configuration: OutboundConfiguration
    private let inbox = LoopInbox()
    private let numbers = Atomic<UInt64>(1)
    private let thread = Atomic<UInt>(0)

    /// Time at which the loop's current round began.
    private var turnBegan: UInt64 = 0
    private var shelves: CurlShelves
    private var timers = TimerHeap()
    /// Requests under way, each at its ``RunningRequest/place``.
    private var running: [RunningRequest] = []
    /// Requests that wait for a place.
    private var waiting: Deque<RunningRequest> = []
    /// Requests that wait for their host's addresses, with the timer that ends the wait.
    private var unresolved: [OutboundEngine.Ticket: (request: RunningRequest, timer: UInt64)] = [:]
    private var lookups: NameLookups
    /// Commands that the thread gives to itself, and memory for the next ones.
    private var own: (commands: [LoopInbox.Command], spare: [LoopInbox.Command]) = ([], [])
    private var tally = OutboundEngine.Figures()
    private var ending: (deadline: UInt64, done: [@Sendable () -> Void])?

    init(_ configuration: OutboundConfiguration) throws(OutboundEngine.StartError) {
        lookups = NameLookups(most: configuration.maxLookups)
        guard stalecast_curl_prepare(), inbox.wakeDescriptor >= 0, let shelves = CurlShelves(configuration),
            stalecast_epoll_add_level(shelves.epoll, inbox.wakeDescriptor, UInt64(inbox.wakeDescriptor)) == 0
        else {
            throw OutboundEngine.StartError(description: "libcurl cannot be started: no memory or no descriptors left")
        }
        self.shelves = shelves
        self.configuration = configuration
    }

    deinit {
        shelves.free()
        close(inbox.wakeDescriptor)
    }

    var isCurrent: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

    /// Time of the round on the loop's thread, and of the clock on others.
    var now: UInt64 { isCurrent ? turnBegan : stalecast_monotonic_ns() }

    func nextNumber() -> UInt64 { numbers.wrappingAdd(1, ordering: .relaxed).oldValue }

    func give(_ command: LoopInbox.Command, wakes: Bool = true) {
        if isCurrent {
            own.commands.append(command)
        } else if !inbox.put(command, wakes: wakes) {
            refuse(command)
        }
    }

    func run() {
        thread.store(UInt(pthread_self()), ordering: .relaxed)
        var events = [epoll_event](repeating: epoll_event(), count: 256)
        while !isOver {
            turnBegan = stalecast_monotonic_ns()
            turn()
            report()
            // Told to end with nothing under way: there is nothing to wait for.
            if isOver { break }
            wait(&events)
        }
        end()
    }

    /// One round of everything that can be done without waiting.
    private func turn() {
        inbox.take().forEach(obey)
        obeyOwn()
        // What these bodies ask to be done at once is done in the next round, after a look at the sockets.
        while let body = timers.takeDue(turnBegan) {
            body()
            obeyOwn()
        }
        for curl in shelves.curls where curl.pointee.deadline <= turnBegan { stalecast_curl_time(curl) }
        finish()
    }

    private func obeyOwn() {
        while !own.commands.isEmpty {
            var commands: [LoopInbox.Command] = []
            swap(&commands, &own.spare)
            swap(&commands, &own.commands)
            for command in commands { obey(command) }
            commands.removeAll(keepingCapacity: commands.count <= 1024)
            swap(&commands, &own.spare)
        }
    }

    private func wait(_ events: inout [epoll_event]) {
        // ``LoopInbox`` falls asleep under its lock, so that a command put from then on rings the descriptor.
        let timeout = own.commands.isEmpty && inbox.fallAsleep() ? millisecondsToWait() : 0
        let count = events.withUnsafeMutableBufferPointer {
            epoll_wait(shelves.epoll, $0.baseAddress, Int32($0.count), timeout)
        }
        for index in 0..<Int(max(0, count)) {
            let tag = stalecast_event_tag(&events[index])
            let descriptor = Int32(truncatingIfNeeded: tag)
            if descriptor == inbox.wakeDescriptor {
                stalecast_drain(inbox.wakeDescriptor)
            } else {
                stalecast_curl_socket(shelves.curls[Int(tag >> 32)], descriptor, events[index].events)
            }
        }
    }

    /// Milliseconds until libcurl's deadline, the first timer, or the end; -1 for ever.
    private func millisecondsToWait() -> Int32 {
        let due = shelves.curls.reduce(UInt64.max) { min($0, $1.pointee.deadline) }
        let next = min(due, timers.next() ?? .max, ending?.deadline ?? .max)
        guard next != .max else { return -1 }
        let now = stalecast_monotonic_ns()
        return next <= now ? 0 : Int32(min((next - now + 999_999) / 1_000_000, 60_000))
    }

    private func obey(_ command: LoopInbox.Command) {
        assert(isCurrent)
        switch command {
        case .start(let request): admit(request)
        case .cancel(let ticket): cancel(ticket)
        case .lookedUp(let name, let answer): take(answer, of: name)
        case .perform(let body): body()
        case .at(let time, let timer, let body): timers.add(time, timer.number, body)
        case .cancelTimer(let timer): timers.cancel(timer.number)
        case .shutdown(let grace, let done):
            let deadline = stalecast_monotonic_ns() + grace.nanoseconds
            ending = (min(deadline, ending?.deadline ?? .max), (ending?.done ?? []) + [done])
        }
    }
}

// MARK: - Requests

extension OutboundLoop {
    private func admit(_ request: RunningRequest) {
        guard ending == nil else { return conclude(request, .failed(OutboundFailure(.cancelled))) }
        if running.count >= configuration.maxInFlight { waiting.append(request) } else { start(request) }
    }

    private func start(_ request: RunningRequest) {
        let shelf = CurlShelf.number(of: request.terms.url, among: shelves.curls.count)
        guard let handle = shelves[shelf].pool.take(request.request.target.handleKey) else {
            return conclude(request, .failed(OutboundFailure(.other, detail: "out of memory")))
        }
        do {
            try request.take(handle, at: turnBegan)
        } catch {
            // The handle is not given back: it may be half set, with the last request's certificates.
            return conclude(request, .failed(error))
        }
        guard stalecast_curl_add(shelves.curls[shelf], handle.easy) else {
            request.handle = nil
            return conclude(request, .failed(OutboundFailure(.other, detail: "libcurl takes no request")))
        }
        request.place = running.count
        running.append(request)
    }

    private func cancel(_ ticket: OutboundEngine.Ticket) {
        if let request = running.first(where: { $0.ticket == ticket }) {
            request.isCancelled = true
            complete(request, CURLE_ABORTED_BY_CALLBACK)
        } else if let request = waiting.firstIndex(where: { $0.ticket == ticket }).map({ waiting.remove(at: $0) })
            ?? endWait(ticket)
        {
            conclude(request, .failed(OutboundFailure(.cancelled)))
        }
    }

    /// Takes what libcurl has finished, and starts what waited for its place.
    private func finish() {
        var code = CURLE_OK
        for curl in shelves.curls where curl.pointee.has_news {
            while let easy = stalecast_curl_next(curl, &code) {
                guard let context = stalecast_easy_transfer(easy).pointee.context else { continue }
                complete(Unmanaged<RunningRequest>.fromOpaque(context).takeUnretainedValue(), code)
            }
        }
        // What follows from all of these answers is done together.
        obeyOwn()
        while running.count < configuration.maxInFlight, let request = waiting.popFirst() { admit(request) }
    }

    private func complete(_ request: RunningRequest, _ code: CURLcode) {
        // A completion may have cancelled this one meanwhile.
        guard running.indices.contains(request.place), running[request.place] === request else { return }
        let last = running.removeLast()
        if last !== request {
            last.place = request.place
            running[last.place] = last
        }
        // Tried without first: only libcurl knows whether there is a connection that can be used again.
        let needsAddresses = request.handle?.transfer.pointee.needs_addresses == true && !request.isCancelled
        let outcome = request.outcome(code)
        if let handle = request.handle {
            if !needsAddresses { count(outcome, handle) }
            let shelf = Int(handle.transfer.pointee.curl.pointee.number)
            stalecast_curl_remove(shelves.curls[shelf], handle.easy)
            handle.transfer.pointee.context = nil
            request.handle = nil
            shelves[shelf].pool.give(handle)
        }
        if needsAddresses, request.addresses.isEmpty, ending == nil { return lookUp(request) }
        request.completion(outcome)
    }

    private func lookUp(_ request: RunningRequest) {
        let timer = nextNumber()
        let (ticket, limit) = (request.ticket, request.terms.limits.longestLookup)
        unresolved[ticket] = (request, timer)
        timers.add(request.startedAt + limit.nanoseconds, timer) { [unowned self] in
            guard let request = endWait(ticket) else { return }
            conclude(request, .failed(OutboundFailure(.dnsTimeout)))
        }
        lookups.add(ticket, request.terms.url.host)
        startLookups()
    }

    private func startLookups() {
        while let name = lookups.next() {
            Thread.detachNewThread { [self] in
                stalecast_name_thread("lookup")
                give(.lookedUp(name, NameLookups.addresses(of: name)))
            }
        }
    }

    private func take(_ answer: NameLookups.Answer, of name: String) {
        for request in lookups.finish(name).compactMap(endWait) {
            switch answer {
            case .failure(let failure): conclude(request, .failed(failure))
            case .success(let addresses):
                request.addresses = addresses
                admit(request)
            }
        }
        startLookups()
    }

    /// The request that waited for its host's addresses; nil when it does no more.
    private func endWait(_ ticket: OutboundEngine.Ticket) -> RunningRequest? {
        guard let (request, timer) = unresolved.removeValue(forKey: ticket) else { return nil }
        timers.cancel(timer)
        lookups.remove(ticket, request.terms.url.host)
        request.lookupTime = stalecast_monotonic_ns() - request.startedAt
        return request
    }

    private func conclude(_ request: RunningRequest, _ result: OutboundOutcome.Result) {
        var phases = OutboundOutcome.Phases()
        phases.dns = Int64(request.lookupTime / 1000)
        phases.total = phases.dns
        request.completion(OutboundOutcome(result: result, phases: phases))
    }

    /// Refuses a command after the end.
    private func refuse(_ command: LoopInbox.Command) {
        switch command {
        case .start(let request): conclude(request, .failed(OutboundFailure(.cancelled)))
        case .perform(let body): body()
        case .shutdown(_, let done): done()
        case .cancel, .lookedUp, .at, .cancelTimer: break
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

    private func report() {
        tally.longestTurn = max(tally.longestTurn, stalecast_monotonic_ns() - turnBegan)
        tally.inFlight = running.count
        tally.waiting = waiting.count + unresolved.count
        let counts = shelves.counts.pointee
        tally.handles = Int(counts.handles)
        (tally.handshakes, tally.resumedHandshakes) = (counts.handshakes, counts.resumed)
        tally.connections = Int(counts.sockets)
        tally.lookups = lookups.underWay
        tally.cpu = stalecast_thread_cpu_ns()
        figures.withLock { $0 = tally }
    }

    private var isOver: Bool {
        guard let ending else { return false }
        return running.isEmpty && waiting.count + unresolved.count == 0 || ending.deadline <= stalecast_monotonic_ns()
    }

    private func end() {
        for request in running {
            request.isCancelled = true
            complete(request, CURLE_ABORTED_BY_CALLBACK)
            obeyOwn()
        }
        while let request = waiting.popFirst() ?? unresolved.keys.first.flatMap(endWait) {
            conclude(request, .failed(OutboundFailure(.cancelled)))
        }
        for index in shelves.indices { shelves[index].pool.empty() }
        // A timer's owner often holds the engine: with its timers an engine that ended would keep its descriptors for
        // ever.
        timers = TimerHeap()
        let left = own.commands + inbox.close()
        own = ([], [])
        thread.store(0, ordering: .relaxed)
        left.forEach(refuse)
        ending?.done.forEach { $0() }
    }
}
