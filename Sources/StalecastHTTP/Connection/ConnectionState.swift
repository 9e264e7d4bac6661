import StalecastWire

/// Reason why a connection was closed before its client ended it.
package enum ConnectionFault: Sendable, Hashable {
    case headTimeout, bodyTimeout, idle, writeStall, badRequest
}

/// One connection, without its socket: facts go in, what is to be done comes out; times are nanoseconds of a monotonic
/// clock. One request at a time is parsed and served; what the client sends behind it waits. After the last answer the
/// output is closed first and input is thrown away for a moment, so that no reset takes the answer with it.
package struct ConnectionState: Sendable {
    private enum Phase {
        /// State between two requests, or within a head of which so many bytes were seen.
        case head(bytes: Int)
        /// The head was parsed, of the body so much.
        case body(received: Int, limit: Int, began: UInt64)
        /// A whole request is there and its answer has not ended.
        case serving
        /// The answer has no end of its own: a stream, or a poll that waits.
        case holding
        /// Answers wait for the client to read them; nothing is read from it meanwhile.
        case blocked
        /// The last answer is written, and the kernel has not taken all of it.
        case flushing
        case lingering
        case closed
    }

    package enum Take: Sendable, Equatable {
        /// Give so many to the parser.
        case pass(Int)
        /// Keep them until the answer has ended.
        case wait
        case drop
        case refuse(GoogleError)
    }

    package enum Next: Sendable, Equatable {
        /// Take up what waits.
        case proceed
        /// Stop reading until the kernel has taken what was written.
        case block
        /// Write nothing after this answer, and report when the kernel has taken it.
        case finish
        case nothing
    }

    /// Action when the client ended its side, or when a time has come.
    package enum End: Sendable, Equatable {
        case nothing
        case close(ConnectionFault?)
        case refuse(GoogleError, ConnectionFault?)
    }

    private enum Cause { case head, body, drain, idle, stall, linger }

    private let limits: ConnectionLimits
    private var phase = Phase.head(bytes: 0)
    private var frame = RequestFrame()
    private var deadline: (at: UInt64, cause: Cause)?
    /// No request after this one is answered.
    private var isLast = false
    /// The last answer was to a whole request.
    private var hasServedLast = false
    private var isDraining = false
    /// Bytes that waited for the client at the last check.
    private var unwrittenBefore = 0

    package init(limits: ConnectionLimits, at now: UInt64) {
        self.limits = limits
        deadline = (now + limits.headTimeout.nanoseconds, .head)
    }

    /// The request line ends as HTTP's does; says nothing of its method.
    package var isHTTP: Bool { frame.isHTTP }
    package var isHolding: Bool { if case .holding = phase { true } else { false } }
    package var isClosed: Bool { if case .closed = phase { true } else { false } }
    /// Nothing of the next request was taken.
    package var isBetweenRequests: Bool { if case .head(bytes: 0) = phase { true } else { false } }
    package var isBlocked: Bool { if case .blocked = phase { true } else { false } }
    /// Begin of the head that is awaited, in nanoseconds; nil between two requests and while one is served.
    package var headBegan: UInt64? {
        guard case .head = phase, let deadline, deadline.cause == .head else { return nil }
        return deadline.at - limits.headTimeout.nanoseconds
    }
    /// End of the last answer, in nanoseconds; nil before the first request and while one is served, and after a refusal,
    /// which the client may not have read.
    package var idleSince: UInt64? {
        guard let deadline else { return nil }
        switch (phase, deadline.cause) {
        case (.head, .idle): return deadline.at - limits.idleTimeout.nanoseconds
        case (.lingering, .linger) where hasServedLast: return deadline.at - limits.linger.nanoseconds
        default: return nil
        }
    }
    package var isEnding: Bool { if case .flushing = phase { true } else { isLingering || isClosed } }
    package var isLingering: Bool { if case .lingering = phase { true } else { false } }

    // MARK: Input

    package mutating func take(_ bytes: UnsafeRawBufferPointer, at now: UInt64) -> Take {
        switch phase {
        case .head(let before):
            // The first byte of a head starts its time, and later ones do not extend it.
            if deadline?.cause != .head { arm(limits.headTimeout, .head, now) }
            let count = frame.extent(of: bytes)
            guard before + count <= limits.maxHeadBytes else { return .refuse(.headTooLarge) }
            if frame.isForeign { return .refuse(.malformed("This server speaks HTTP/1.1.")) }
            phase = .head(bytes: before + count)
            return .pass(count)
        case .body(let received, _, _):
            let before = frame.overhead
            let count = frame.extent(of: bytes)
            // Chunk sizes and trailers are not content.
            let content = received + count - (frame.overhead - before)
            // A chunk of one byte has five beside it.
            guard frame.overhead <= limits.maxHeadBytes + 8 * content else {
                return .refuse(.framingTooLarge)
            }
            return count > 0 && !frame.isBroken ? .pass(count) : .refuse(.notHTTP)
        case .serving, .holding, .blocked: return isLast && !isHolding ? .drop : .wait
        case .flushing, .lingering, .closed: return .drop
        }
    }

    /// A whole request was recognised in what arrived, and is being served.
    package mutating func recognised(keepsAlive: Bool) {
        if !keepsAlive { isLast = true }
        phase = .serving
        deadline = nil
    }

    /// The parser has a head.
    ///
    /// - Parameter bodyLimit: the most bytes its body may have.
    /// - Returns: what to answer instead of reading on; nil when all is well.
    package mutating func received(_ head: RequestHead, bodyLimit: Int, at now: UInt64) -> GoogleError? {
        guard case .head = phase, frame.isAtHeadEnd else { return .notHTTP }
        frame.begin(head.framing)
        if case .length(let length) = head.framing, length > bodyLimit { return .bodyTooLarge(limit: bodyLimit) }
        if !head.keepsAlive { isLast = true }
        phase = .body(received: 0, limit: bodyLimit, began: now)
        if isDraining { arm(limits.drainTimeout, .drain, now) } else { arm(limits.bodyTimeout, .body, now) }
        return nil
    }

    /// The parser has a piece of the body. Returns as ``received(_:bodyLimit:at:)`` does.
    package mutating func receivedBody(_ count: Int) -> GoogleError? {
        guard case .body(let before, let limit, let began) = phase else { return .notHTTP }
        let received = before + count
        guard received <= limit else { return .bodyTooLarge(limit: limit) }
        phase = .body(received: received, limit: limit, began: began)
        // A client that sends less than a KiB a second holds the connection for nothing.
        if deadline?.cause == .body {
            deadline = (began + limits.bodyTimeout.nanoseconds + UInt64(received) * (1_000_000_000 / 1024), .body)
        }
        return nil
    }

    /// The parser has a whole request, which is to be served where nil is returned.
    package mutating func receivedEnd() -> GoogleError? {
        guard case .body = phase, frame.isComplete else { return .notHTTP }
        phase = .serving
        deadline = nil
        return nil
    }

    /// The parser has taken what it was given.
    ///
    /// - Returns: what to answer when it did not find the end that ``take(_:at:)`` did.
    package func parsed() -> GoogleError? {
        switch phase {
        case .head: frame.isAtHeadEnd ? .notHTTP : nil
        case .body: frame.isComplete ? .notHTTP : nil
        default: nil
        }
    }

    /// The client closed its side, and all that it sent was taken.
    package mutating func inputClosed() -> End {
        switch phase {
        case .head(bytes: 0), .holding, .lingering: return .close(nil)
        case .head, .body:
            return .refuse(.malformed("The connection was closed before the request was complete."), nil)
        case .serving:
            isLast = true
            return .nothing
        case .blocked, .flushing, .closed: return .nothing
        }
    }

    // MARK: Answers

    /// The answer to the request being served goes on until ``answered(isLast:isWritten:unwritten:at:)``.
    package mutating func hold() { if case .serving = phase { phase = .holding } }

    /// An answer was written.
    ///
    /// - Parameters:
    ///   - isLast: the client was told that the connection ends with it.
    ///   - unwritten: what the socket did not take yet, in bytes.
    package mutating func answered(isLast ends: Bool, unwritten: Int, at now: UInt64) -> Next {
        switch phase {
        case .serving, .holding:
            if ends || isLast {
                hasServedLast = true
                return finish(unwritten, now)
            }
            phase = .head(bytes: 0)
            frame = RequestFrame()
            // The next request is not read before this answer is: answers would pile up here.
            if unwritten > 0 {
                phase = .blocked
                awaitWriting(unwritten, now)
                return .block
            }
            arm(limits.idleTimeout, .idle, now)
            return .proceed
        default: return .nothing
        }
    }

    /// Whether the answer to the request being served is the connection's last one.
    package var endsWithAnswer: Bool { isLast || isDraining }

    /// Nothing that the client sends from now on is worth reading, and the last answer was written; or there is none.
    package mutating func finish(_ unwritten: Int, _ now: UInt64) -> Next {
        if isEnding { return .nothing }
        phase = .flushing
        awaitWriting(unwritten, now)
        return .finish
    }

    /// Everything written has left.
    ///
    /// - Returns: `finish`: close the output.
    package mutating func flushed(at now: UInt64) -> Next {
        switch phase {
        case .blocked:
            phase = .head(bytes: 0)
            arm(limits.idleTimeout, .idle, now)
            return .proceed
        case .flushing:
            phase = .lingering
            arm(limits.linger, .linger, now)
            return .finish
        default: return .nothing
        }
    }

    /// The connection is gone, or has another owner.
    package mutating func close() {
        phase = .closed
        deadline = nil
    }

    // MARK: Time

    /// The daemon is stopping: what is idle ends, what has begun may finish.
    package mutating func drain(at now: UInt64) -> End {
        isDraining = true
        switch phase {
        case .head(bytes: 0): return .close(nil)
        // The answer that the client is reading is its last; its deadline stays.
        case .blocked: phase = .flushing
        case .body: arm(limits.drainTimeout, .drain, now)
        default: break
        }
        return .nothing
    }

    package mutating func tick(at now: UInt64, unwritten: Int) -> End {
        guard let due = deadline, due.at <= now else { return .nothing }
        deadline = nil
        switch due.cause {
        case .head:
            // A connection without a byte of a request has nothing to answer.
            if case .head(bytes: 0) = phase { return .close(.headTimeout) }
            return .refuse(.headTimeout, .headTimeout)
        case .body: return .refuse(.bodyTimeout, .bodyTimeout)
        case .drain: return .refuse(.shuttingDown, nil)
        case .idle: return .close(.idle)
        case .linger: return .close(nil)
        case .stall:
            // Less of it each time means that the client reads.
            if unwritten >= unwrittenBefore { return .close(.writeStall) }
            awaitWriting(unwritten, now)
            return .nothing
        }
    }

    private mutating func awaitWriting(_ unwritten: Int, _ now: UInt64) {
        unwrittenBefore = unwritten
        arm(limits.writeStallLimit, .stall, now)
    }

    private mutating func arm(_ time: Duration, _ cause: Cause, _ now: UInt64) {
        deadline = (now + time.nanoseconds, cause)
    }
}
