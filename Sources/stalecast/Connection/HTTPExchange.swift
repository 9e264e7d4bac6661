import StalecastOutbound
import Synchronization

/// One request to the daemon over libcurl, whose answer arrives in parts, as the network delivers them.
///  Redirects are not followed: they would carry the token to a place that the user did not name. Nor is a proxy of the
/// environment used. While nothing arrives it costs nothing: Foundation's `URLSession` took most of a core for waiting.
enum HTTPExchange {
    enum Part: Sendable {
        /// Bytes of an answer's body; none of a refusal's.
        case bytes([UInt8])
        /// The answer is complete; its body is empty, of a refusal the beginning.
        case end(HTTPAnswer)
    }

    /// Parts waiting for a slow reader, at most; then the exchange ends and a watcher resumes without loss.
    private static let maxWaitingParts = 4096
    private static let connectTimeout: Duration = .seconds(10)
    /// Most bytes of a refusal that are read: its explanation is a page at most.
    private static let maxRefusalBytes = 256 << 10

    /// The command's only engine; made by its first request.
    private static let engine = Result { try OutboundEngine(OutboundConfiguration(threadName: "http")) }

    /// Starts `request`; it ends when the reader stops reading or is cancelled. Throws ``OutboundFailure``.
    ///
    /// - Parameter patience: without a byte for so long it is given up.
    static func start(_ request: OutboundRequest, patience: Duration) -> AsyncThrowingStream<Part, any Error> {
        var request = request
        request.limits = OutboundLimits(
            connectTimeout: min(connectTimeout, patience), timeout: .zero, maxBodyBytes: maxRefusalBytes)
        request.keptHeaders = HTTPAnswer.keptFields
        return AsyncThrowingStream(bufferingPolicy: .bufferingOldest(maxWaitingParts)) { [request] parts in
            // Cancelled when its reader ends.
            let running = Task { await run(request, patience, parts) }
            parts.onTermination = { _ in running.cancel() }
        }
    }

    private static func run(
        _ request: OutboundRequest, _ patience: Duration, _ parts: AsyncThrowingStream<Part, any Error>.Continuation
    ) async {
        do {
            let engine = try engine.get()
            let heard = LastHeard()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    let outcome = await engine.stream(request) { _, bytes in
                        heard.now()
                        return if case .enqueued = parts.yield(.bytes(bytes)) { true } else { false }
                    }
                    switch outcome.result {
                    case .answered(let status, let headers, let refusal, _):
                        parts.yield(.end(HTTPAnswer(status: status, fields: headers, body: refusal)))
                    case .failed(let failure): throw failure
                    }
                }
                group.addTask { try await heard.waitForSilence(of: patience) }
                // Whichever ends first ends the other: the answer, or the wait for silence.
                defer { group.cancelAll() }
                try await group.next()
            }
            parts.finish()
        } catch {
            parts.finish(throwing: error)
        }
    }

    /// Time of the last byte.
    private final class LastHeard: Sendable {
        private let time = Mutex(ContinuousClock.now)

        func now() { time.withLock { $0 = .now } }

        /// - Throws: ``OutboundFailure`` after so long without a byte; `CancellationError`.
        func waitForSilence(of patience: Duration) async throws {
            while true {
                let due = time.withLock { $0 } + patience
                guard due > .now else { throw OutboundFailure(.responseTimeout) }
                try await Task.sleep(until: due, clock: .continuous)
            }
        }
    }
}
