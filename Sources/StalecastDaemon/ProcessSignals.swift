import CLinux
import Foundation
import Synchronization

/// The signals of this process, waited for by a plain thread of its own: whatever the cooperative pool, a disk or a log
/// without a reader does, a daemon that was told to end is gone within 15 s.
///
/// Made first thing, so that a signal during a long start is neither lost nor deadly.
package final class ProcessSignals: Sendable {
    /// An element for every SIGHUP; those that come while a reload runs are one.
    let reloads: AsyncStream<Void>
    /// An element when the daemon was told to end.
    let endings: AsyncStream<Void>
    /// Whether Swift's backtracer was asked for (`SWIFT_BACKTRACE=enable=yes`). It works on a dead process for seconds,
    /// which keeps ports, lock and open streams meanwhile; so it is off unless asked for.
    let tracesCrashes: Bool

    /// Whether the daemon was told to end, for code that cannot await `endings`.
    var areEnding: Bool { hasEnded.load(ordering: .relaxed) }

    private let hasEnded = Atomic(false)
    private let reload: AsyncStream<Void>.Continuation
    private let end: AsyncStream<Void>.Continuation

    /// Takes over SIGTERM, SIGINT and SIGHUP, and lets crashes be crashes. Once per process.
    package init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        (reloads, reload) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        (endings, end) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        tracesCrashes = Self.asksForTraces(environment["SWIFT_BACKTRACE"])
        stalecast_crash_at_once(tracesCrashes)
        let signals = [SIGTERM, SIGINT, SIGHUP]
        let descriptor = stalecast_take_signals(signals, Int32(signals.count))
        precondition(descriptor >= 0, "a process that starts has descriptors left for a pipe")
        let thread = Thread { [self] in watch(descriptor) }
        thread.name = "signals"
        thread.start()
    }

    /// Starts the deadline when the daemon ends without a signal, such as after a failed service.
    func ending() { kill(getpid(), SIGTERM) }

    /// `enable=yes` among the settings, as the runtime reads them.
    package static func asksForTraces(_ settings: String?) -> Bool {
        let words = (settings ?? "").lowercased().split { $0 == "," || $0 == " " }
        return words.contains {
            ["enable=yes", "enable=on", "enable=true", "enable=y", "enable=t", "enable=1"].contains($0)
        }
    }

    private func watch(_ descriptor: Int32) {
        stalecast_name_thread("signals")
        var state = EndingState()
        while true {
            let signal = stalecast_next_signal(descriptor, state.deadline)
            let now = stalecast_monotonic_ns()
            let action = signal == 0 ? state.timePassed(now) : state.received(signal, at: now)
            switch action {
            case nil: break
            case .reload: reload.yield()
            case .end:
                hasEnded.store(true, ordering: .relaxed)
                end.yield()
            case .exit(let code, let words):
                stalecast_last_words("stalecast: \(words)\n")
                // `exit` would run handlers of libraries beside threads that go on, and could hang as well.
                _exit(code)
            }
        }
    }
}

/// Meaning of signals and of the clock for the process: an end that was asked for has a last moment.
package struct EndingState {
    package enum Action: Equatable {
        case reload, end
        case exit(Int32, String)
    }

    /// Below the 15 s that operators are promised; what is left is for the kernel to close everything.
    package static let patience: UInt64 = 14_000_000_000

    /// The monotonic nanosecond at which the process must be gone.
    package private(set) var deadline = UInt64.max

    private var isEnding: Bool { deadline < .max }

    package init() {}

    package mutating func received(_ signal: Int32, at now: UInt64) -> Action? {
        if signal == SIGHUP { return isEnding ? nil : .reload }
        guard isEnding else {
            deadline = now + Self.patience
            return .end
        }
        // SIGINT again comes from a person who waits. Supervisors repeat SIGTERM as a matter of course.
        return signal == SIGINT ? .exit(128 + SIGINT, "interrupted again, ended at once") : nil
    }

    package func timePassed(_ now: UInt64) -> Action? {
        guard now >= deadline else { return nil }
        return .exit(70, "did not end within 14 s: something hangs; ended without waiting for it")
    }
}
