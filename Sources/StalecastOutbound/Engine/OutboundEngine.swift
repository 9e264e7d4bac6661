import CCurl
import CLinux
import Foundation
import Synchronization

/// Sends requests with libcurl's multi interface, all of them on one thread of its own.
///
/// Each address is judged by the request's ``AddressPolicy`` when its socket is opened and again when a pooled
/// connection is used; redirects, proxies from the environment, other protocols and user names in URLs are off.
package final class OutboundEngine: Sendable {
    private let loop: OutboundLoop

    /// Starts the thread.
    /// - Throws: ``OutboundEngine/StartError`` when libcurl or descriptors are not to be had.
    package init(_ configuration: OutboundConfiguration = OutboundConfiguration()) throws {
        loop = try OutboundLoop(configuration)
        let loop = loop
        Thread.detachNewThread {
            stalecast_name_thread(configuration.threadName)
            loop.run()
        }
    }

    /// The monotonic clock of ``at(_:_:)``, in nanoseconds.
    package static func now() -> UInt64 { stalecast_monotonic_ns() }

    /// Sends a request; any thread.
    ///
    /// - Parameter completion: called once, on the engine's thread; must be quick. Requests that it submits start
    ///   without a detour.
    @discardableResult
    package func submit(
        _ request: OutboundRequest, completion: @escaping @Sendable (OutboundOutcome) -> Void
    ) -> Ticket {
        start(request, onBytes: nil, completion)
    }

    /// Ends a request; its completion is called with ``OutboundFailure/Reason/cancelled`` unless it is over.
    package func cancel(_ ticket: Ticket) { loop.give(.cancel(ticket)) }

    /// Runs `body` on the engine's thread; in order with what the same thread submitted before.
    ///
    /// - Parameter wakes: false lets the thread sleep: `body` runs before what is submitted next.
    package func perform(wakes: Bool = true, _ body: @escaping @Sendable () -> Void) {
        loop.give(.perform(body), wakes: wakes)
    }

    /// Runs `body` on the engine's thread at a time of the monotonic clock (nanoseconds), or soon after.
    @discardableResult
    package func at(_ time: UInt64, _ body: @escaping @Sendable () -> Void) -> OutboundConfiguration.Timer {
        let timer = OutboundConfiguration.Timer(number: loop.nextNumber())
        loop.give(.at(time, timer, body))
        return timer
    }

    package func cancel(_ timer: OutboundConfiguration.Timer) { loop.give(.cancelTimer(timer)) }

    /// Sends a request and waits; cancelling the task ends it.
    package func send(_ request: OutboundRequest) async -> OutboundOutcome {
        await wait { self.submit(request, completion: $0) }
    }

    /// Sends a request whose body is passed on as it comes and not kept.
    ///
    /// - Parameter onBytes: on the engine's thread; false ends the request. A caller that needs a time limit without bytes
    ///   cancels the task.
    /// - Returns: the end of the stream; its `answered` has an empty body.
    package func stream(
        _ request: OutboundRequest, onBytes: @escaping @Sendable (_ status: Int, _ bytes: [UInt8]) -> Bool
    ) async -> OutboundOutcome {
        await wait { self.start(request, onBytes: onBytes, $0) }
    }

    package var figures: Figures { loop.figures.withLock { $0 } }

    /// True on the engine's thread.
    package var isCurrent: Bool { loop.isCurrent }

    /// Lets requests under way finish for `grace`, ends the rest, and ends the thread. What comes later is cancelled.
    package func shutdown(grace: Duration) async {
        await withCheckedContinuation { continuation in
            loop.give(.shutdown(grace) { continuation.resume() })
        }
    }

    private func start(
        _ request: OutboundRequest, onBytes: (@Sendable (Int, [UInt8]) -> Bool)?,
        _ completion: @escaping @Sendable (OutboundOutcome) -> Void
    ) -> Ticket {
        let ticket = Ticket(number: loop.nextNumber())
        loop.give(
            .start(
                RunningRequest(
                    ticket, request, at: loop.now, onBytes: onBytes, completion: completion)))
        return ticket
    }

    private func wait(
        _ start: (@escaping @Sendable (OutboundOutcome) -> Void) -> Ticket
    ) async -> OutboundOutcome {
        let ticket = Mutex<Ticket?>(nil)
        return await withTaskCancellationHandler {
            await handedOver { handOver in
                let started = start(handOver)
                ticket.withLock { $0 = started }
                // A cancellation before this line found no ticket in `onCancel`.
                if Task.isCancelled { cancel(started) }
            }
        } onCancel: {
            if let started = ticket.withLock({ $0 }) { cancel(started) }
        }
    }

    /// Reason why an engine cannot run.
    package struct StartError: Error, CustomStringConvertible {
        package let description: String
    }

    /// Counts of an engine so far, and its gauges.
    package struct Figures: Sendable, Hashable {
        package var inFlight = 0
        package var waiting = 0
        package var requests: UInt64 = 0
        package var newConnections: UInt64 = 0
        package var reusedConnections: UInt64 = 0
        /// TLS handshakes, and how many of them resumed a session.
        package var handshakes: UInt64 = 0
        package var resumedHandshakes: UInt64 = 0
        package var blocked: UInt64 = 0
        /// CPU time of the engine's thread, in nanoseconds.
        package var cpu: UInt64 = 0
        /// The longest that one turn of the loop took, in nanoseconds.
        package var longestTurn: UInt64 = 0
        package var handles = 0
        /// Open connections, idle ones included.
        package var connections = 0
        /// Host names being looked up, each on a thread of its own; also when no request waits for one any more.
        package var lookups = 0
    }

    /// Names a request that was submitted.
    package struct Ticket: Sendable, Hashable {
        let number: UInt64
    }
}
