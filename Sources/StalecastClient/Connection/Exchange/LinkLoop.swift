package import Foundation

#if os(Linux)
    import CTransfers
#endif

/// The one thread on which all connections of the process live: timers, libcurl's transfers, and the steps of each
/// connection. A process holds one connection, or in tests and gateways some thousands, which cost one thread together.
///
/// `@unchecked`: what is not in `inbox` is touched on the loop's thread only.
package final class LinkLoop: @unchecked Sendable {
    package typealias Work = @Sendable () -> Void

    /// The process's loop. Its thread starts with the first work and stays.
    package static let shared = LinkLoop()

    private struct Inbox: Sendable {
        var work: [Work] = []
        var isRunning = false
        var isSignalled = false
    }

    private let inbox = Locked(Inbox())
    /// Both -1 when no pipe could be made: the loop then looks into its inbox every 50 ms.
    private let wake: (read: Int32, write: Int32)
    private var timers = TimerQueue()
    /// Set once by the loop's thread, for ``assertIsCurrent()``.
    private var thread: Thread?
    #if os(Linux)
        /// nil when the system has no libcurl; made with the loop's thread.
        private(set) lazy var transfers = CurlTransfers(loop: self)
    #endif

    init() {
        var ends: [Int32] = [-1, -1]
        if pipe(&ends) != 0 { ends = [-1, -1] }
        for end in ends where end >= 0 {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        wake = (ends[0], ends[1])
        #if os(Linux)
            _ = stalecast_transfers_guard_exit()
        #endif
    }

    /// Runs `work` on the loop, after what was given before. Any thread.
    package func perform(_ work: @escaping Work) {
        let (starts, signals) = inbox.withLock { inbox in
            inbox.work.append(work)
            defer { (inbox.isRunning, inbox.isSignalled) = (true, true) }
            return (!inbox.isRunning, !inbox.isSignalled)
        }
        if starts {
            Thread.detachNewThread { self.run() }
        } else if signals {
            // A full pipe wakes the loop as well.
            _ = write(wake.write, [1], 1)
        }
    }

    // MARK: On the loop only

    /// Nanoseconds of a clock that is never set.
    package static var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// - Parameter seconds: 0 or less is as soon as possible.
    /// - Returns: what ``cancelTimer(_:)`` wants.
    package func after(_ seconds: TimeInterval, _ action: @escaping Work) -> Int {
        assertIsCurrent()
        return timers.add(at: Self.now + UInt64(max(0, min(seconds, 1e8)) * 1e9), action)
    }

    package func cancelTimer(_ id: Int?) {
        assertIsCurrent()
        if let id { timers.cancel(id) }
    }

    func assertIsCurrent() { assert(Thread.current === thread, "off the loop's thread") }

    private func run() {
        thread = Thread.current
        Thread.current.name = "stalecast.link"
        while true {
            runInbox()
            while let action = timers.next(at: Self.now) { action() }
            wait()
        }
    }

    private func wait() {
        #if os(Linux)
            if let transfers {
                transfers.step()
                transfers.wait(wake: wake.read, milliseconds: timeout)
                transfers.step()
                return drainPipe()
            }
        #endif
        var descriptor = pollfd(fd: wake.read, events: Int16(POLLIN), revents: 0)
        if poll(&descriptor, 1, timeout) > 0 { drainPipe() }
    }

    private func drainPipe() {
        guard wake.read >= 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 256)
        while read(wake.read, &buffer, buffer.count) == buffer.count {}
    }

    private func runInbox() {
        let work = inbox.withLock { inbox in
            inbox.isSignalled = false
            defer { inbox.work = [] }
            return inbox.work
        }
        for item in work { item() }
    }

    /// Milliseconds until the next timer, rounded up; -1 is for ever.
    private var timeout: Int32 {
        let longest: Int32 = wake.read < 0 ? 50 : -1
        if inbox.withLock({ !$0.work.isEmpty }) { return 0 }
        guard let deadline = timers.nextDeadline else { return longest }
        let now = Self.now
        let milliseconds = deadline <= now ? 0 : Int32(min((deadline - now + 999_999) / 1_000_000, 3_600_000))
        return longest < 0 ? milliseconds : min(longest, milliseconds)
    }
}

/// Actions by the time they are due. A cancelled one stays until it comes up.
package struct TimerQueue {
    package typealias Action = @Sendable () -> Void

    /// The latest first: the next one is taken from the end.
    private var entries: [(deadline: UInt64, id: Int)] = []
    private var actions: [Int: Action] = [:]
    private var lastID = 0

    package init() {}

    /// The earliest deadline, in nanoseconds of the caller's clock; nil when nothing is due ever.
    package var nextDeadline: UInt64? {
        mutating get {
            while let next = entries.last, actions[next.id] == nil { entries.removeLast() }
            return entries.last?.deadline
        }
    }

    /// - Returns: what ``cancel(_:)`` wants.
    package mutating func add(at deadline: UInt64, _ action: @escaping Action) -> Int {
        lastID += 1
        actions[lastID] = action
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].deadline > deadline { low = middle + 1 } else { high = middle }
        }
        entries.insert((deadline, lastID), at: low)
        return lastID
    }

    package mutating func cancel(_ id: Int) { actions[id] = nil }

    /// Takes the first action that is due at `now`; nil when none is.
    package mutating func next(at now: UInt64) -> Action? {
        guard let deadline = nextDeadline, deadline <= now, let entry = entries.popLast() else { return nil }
        return actions.removeValue(forKey: entry.id)
    }
}
