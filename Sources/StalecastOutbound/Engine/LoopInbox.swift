import CLinux
import Synchronization

/// Commands of other threads to the loop, and the way they wake it.
final class LoopInbox: Sendable {
    enum Command: Sendable {
        case start(RunningRequest)
        case cancel(OutboundEngine.Ticket)
        case lookedUp(String, NameLookups.Answer)
        case perform(@Sendable () -> Void)
        case at(UInt64, OutboundConfiguration.Timer, @Sendable () -> Void)
        case cancelTimer(OutboundConfiguration.Timer)
        case shutdown(Duration, @Sendable () -> Void)
    }

    /// An eventfd in the loop's epoll set.
    let wakeDescriptor: Int32
    private let contents = Mutex(Contents())
    /// Orders what is put before what is taken, as the lock does, in a way that the thread sanitizer sees: where a
    /// Mutex has to wait, it does not.
    private let puts = Atomic<UInt64>(0)

    private struct Contents {
        var commands: [Command] = []
        var isAsleep = false
        /// Whether the loop has ended: commands are not taken any more.
        var isClosed = false
    }

    init() { wakeDescriptor = stalecast_eventfd() }

    /// Commands that may wait before the loop is woken anyway.
    private static let mostWaiting = 64

    /// False when the loop has ended; the command was not taken.
    ///
    /// - Parameter wakes: false lets the loop sleep, until a later command wakes it or too many wait.
    func put(_ command: Command, wakes: Bool = true) -> Bool {
        let (taken, ring) = contents.withLock { contents -> (Bool, Bool) in
            guard !contents.isClosed else { return (false, false) }
            contents.commands.append(command)
            puts.wrappingAdd(1, ordering: .releasing)
            let ring = contents.isAsleep && (wakes || contents.commands.count >= Self.mostWaiting)
            if ring { contents.isAsleep = false }
            return (true, ring)
        }
        if ring { stalecast_ring(wakeDescriptor) }
        return taken
    }

    func take() -> [Command] {
        contents.withLock { contents in
            contents.isAsleep = false
            guard !contents.commands.isEmpty else { return [] }
            _ = puts.load(ordering: .acquiring)
            defer { contents.commands = [] }
            return contents.commands
        }
    }

    /// False when there is something to take; then the loop must not sleep.
    func fallAsleep() -> Bool {
        contents.withLock { contents in
            contents.isAsleep = contents.commands.isEmpty
            return contents.isAsleep
        }
    }

    /// Closes the inbox when the loop ends; returns the commands that are left.
    func close() -> [Command] {
        contents.withLock { contents in
            contents.isClosed = true
            defer { contents.commands = [] }
            return contents.commands
        }
    }
}
