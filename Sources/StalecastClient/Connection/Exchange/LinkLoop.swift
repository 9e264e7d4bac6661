import Foundation

/// The one thread on which all connections of the process live: timers, sockets, and the steps of each connection.
///
/// It waits in `poll(2)`, which both Linux and Apple's systems have: a process holds one connection, or in tests and
/// gateways some thousands, and they cost one thread together.
///
/// `@unchecked`: what is not in `inbox` is touched on the loop's thread only.
final class LinkLoop: @unchecked Sendable {
    typealias Work = @Sendable () -> Void

    /// The process's loop. Its thread starts with the first work and stays.
    static let shared = LinkLoop()

    private struct Inbox: Sendable {
        var work: [Work] = []
        var isRunning = false
        var isSignalled = false
    }

    private struct Watch {
        let id: Int
        let action: @Sendable (_ isReadable: Bool) -> Void
    }

    private let inbox = Locked(Inbox())
    /// Both -1 when no pipe could be made: the loop then looks into its inbox every 50 ms.
    private let wake: (read: Int32, write: Int32)
    private var timers = TimerQueue()
    /// Parallel to `watches`, behind the pipe's own.
    private var descriptors: [pollfd] = []
    private var watches: [Watch] = []
    private var lastWatch = 0
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)

    init() {
        var ends: [Int32] = [-1, -1]
        if pipe(&ends) != 0 { ends = [-1, -1] }
        for end in ends where end >= 0 {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        wake = (ends[0], ends[1])
        descriptors = [pollfd(fd: wake.read, events: Int16(POLLIN), revents: 0)]
    }

    /// Runs `work` on the loop, after what was given before. Any thread.
    func perform(_ work: @escaping Work) {
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
    static var now: UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// - Parameter seconds: 0 or less is as soon as possible.
    /// - Returns: what ``cancelTimer(_:)`` wants.
    func after(_ seconds: TimeInterval, _ action: @escaping Work) -> Int {
        timers.add(at: Self.now + UInt64(max(0, min(seconds, 1e8)) * 1e9), action)
    }

    func cancelTimer(_ id: Int?) {
        if let id { timers.cancel(id) }
    }

    /// Calls `action` for as long as the descriptor is readable, or writable when that is asked for, or broken.
    ///
    /// - Returns: what ``unwatch(_:)`` wants; the descriptor must be open until then.
    func watch(
        _ descriptor: Int32, forWriting: Bool = false, _ action: @escaping @Sendable (_ isReadable: Bool) -> Void
    ) -> Int {
        lastWatch += 1
        descriptors.append(pollfd(fd: descriptor, events: Int16(forWriting ? POLLOUT : POLLIN), revents: 0))
        watches.append(Watch(id: lastWatch, action: action))
        return lastWatch
    }

    func unwatch(_ id: Int) {
        // Watches are made in the order of their ids, and removed without changing it.
        guard let index = index(of: id) else { return }
        watches.remove(at: index)
        descriptors.remove(at: index + 1)
    }

    /// Reads what is there into the loop's buffer and shows it to `take`.
    ///
    /// - Returns: as `recv(2)`.
    func read(_ descriptor: Int32, _ take: (UnsafeRawBufferPointer) -> Void) -> Int {
        let count = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
        if count > 0 { buffer.withUnsafeBytes { take(UnsafeRawBufferPointer(rebasing: $0[..<count])) } }
        return count
    }

    private func index(of id: Int) -> Int? {
        var (low, high) = (0, watches.count)
        while low < high {
            let middle = (low + high) / 2
            if watches[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low < watches.count && watches[low].id == id ? low : nil
    }

    private func run() {
        Thread.current.name = "stalecast.link"
        while true {
            runInbox()
            while let action = timers.next(at: Self.now) { action() }
            let count = poll(&descriptors, nfds_t(descriptors.count), timeout)
            if count > 0 { runReady() }
        }
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

    private func runReady() {
        if descriptors[0].revents != 0 {
            while buffer.withUnsafeMutableBytes({ Foundation.read(wake.read, $0.baseAddress, $0.count) })
                == buffer.count
            {}
        }
        // By id, because an action may end watches and start others, even on the same descriptor.
        let ready = watches.indices.filter { descriptors[$0 + 1].revents != 0 }
            .map { (watches[$0].id, descriptors[$0 + 1].revents & Int16(POLLIN) != 0) }
        for (id, isReadable) in ready {
            if let index = index(of: id) { watches[index].action(isReadable) }
        }
    }
}
