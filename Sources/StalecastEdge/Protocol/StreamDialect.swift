import StalecastAccess
import StalecastHub
import StalecastWire

/// The bytes of a stream: which dialect, and whether in HTTP/1.1 chunks or plain until the connection ends.
struct StreamDialect {
    let isHTTP11: Bool
    /// ``StreamRequest/Kind/events``, or what else is a stream.
    let kind: StreamRequest.Kind

    /// A comment, or an empty line, that keeps proxies and read timeouts quiet.
    var heartbeat: [UInt8] {
        switch (kind == .invalidations, isHTTP11) {
        case (false, true): Self.commentChunk
        case (false, false): Self.comment
        case (true, true): Self.emptyLineChunk
        case (true, false): EncodedMessage.Invalidation.keepAlive
        }
    }

    private static let comment = SSEEncoder.comment("hb")
    private static let commentChunk = ChunkEncoder.chunk(comment)
    private static let emptyLineChunk = ChunkEncoder.chunk(EncodedMessage.Invalidation.keepAlive)

    /// Ping of LaunchDarkly's streams. Its data is a blank: some parsers drop an event without data.
    private static let pingChunk = ChunkEncoder.chunk(ping)
    private static let ping = SSEEncoder.event("ping", data: [0x20])

    var transport: Transport { kind.isOfScope ? .firebase : .sse }

    func append(_ payload: [UInt8], to bytes: inout [UInt8]) {
        if isHTTP11 { bytes.append(contentsOf: ChunkEncoder.chunk(payload)) } else { bytes.append(contentsOf: payload) }
    }

    func append(chunk: SharedBytes, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: isHTTP11 ? chunk.buffer : chunk.chunkPayload)
    }

    /// Messages in cursor order; of those with one cursor only the last carries the id. One ping stands for all.
    func append(_ encodedMessages: [EncodedMessage], to bytes: inout [UInt8]) {
        if kind == .pings {
            if !encodedMessages.isEmpty { bytes.append(contentsOf: isHTTP11 ? Self.pingChunk : Self.ping) }
            return
        }
        for (position, encodedMessage) in encodedMessages.enumerated() {
            let isLastOfCursor =
                position + 1 == encodedMessages.count
                || encodedMessages[position + 1].sequence != encodedMessage.sequence
            append(chunk: isLastOfCursor ? encodedMessage.chunk : encodedMessage.chunkWithoutID, to: &bytes)
        }
    }

    /// Appends the bytes that follow the head at once. Events: `retry`, a comment, then `reset` if the cursor said
    /// nothing to us, and `unknown-topics` if some of the names mean nothing.
    func appendBeginning(
        retryMs: Int, reset: Opening.ResetReason?, unknown: [TopicName] = [], epoch: Epoch, to bytes: inout [UInt8]
    ) {
        if kind == .invalidations { return append(EncodedMessage.Invalidation.keepAlive, to: &bytes) }
        appendGreeting(retryMs, to: &bytes)
        if kind == .pings { return }
        if let reset {
            let data: JSONValue = ["epoch": .string(epoch.description), "reason": .string(reset.rawValue)]
            append(SSEEncoder.event("reset", data: data.encoded()), to: &bytes)
        }
        guard !unknown.isEmpty else { return }
        let data: JSONValue = ["topics": .array(unknown.map { .string($0.description) })]
        append(SSEEncoder.event("unknown-topics", data: data.encoded(.wire)), to: &bytes)
    }

    /// `retry` and the first comment, written digit by digit: a storm of reconnects asks for it thousands of times.
    private func appendGreeting(_ retryMs: Int, to bytes: inout [UInt8]) {
        var digits = 1
        var scale = 1
        while retryMs / scale >= 10 {
            scale *= 10
            digits += 1
        }
        if isHTTP11 {
            // 20 bytes of text and the digits: two hexadecimal digits for every delay up to 10^10 ms.
            let count = 20 + digits
            for nibble in [count >> 4, count & 15] { bytes.append(UInt8(nibble < 10 ? 0x30 + nibble : 0x57 + nibble)) }
            Self.append("\r\n", to: &bytes)
        }
        Self.append("retry: ", to: &bytes)
        while scale > 0 {
            bytes.append(0x30 + UInt8(retryMs / scale % 10))
            scale /= 10
        }
        Self.append(isHTTP11 ? "\n: stalecast\n\r\n" : "\n: stalecast\n", to: &bytes)
    }

    private static func append(_ text: StaticString, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// The bookmark of an event stream: everything up to `head` was written.
    static func synced(_ head: Cursor) -> [UInt8] {
        let data: JSONValue = ["cursor": .string(head.description)]
        return SSEEncoder.event("synced", id: head.description, data: data.encoded())
    }

    /// Appends the event before the end of a stream whose credential is not good any more; nothing for other reasons.
    func appendAuth(_ reason: DropReason, to bytes: inout [UInt8]) {
        guard !kind.isOfScope, reason == .expired || reason == .revoked else { return }
        append(
            SSEEncoder.event("auth", data: JSONValue.object(["type": .string(reason.rawValue)]).encoded()), to: &bytes)
    }

    /// Tells an event stream that its credential ends soon: time to open another one with a new credential.
    func expiring(_ principal: Principal) -> [UInt8]? {
        guard !kind.isOfScope, let end = principal.expiresAt, let left = principal.expiresInMs else { return nil }
        var bytes: [UInt8] = []
        let data: JSONValue = ["type": "expiring", "expiresAt": .string(end.description), "inMs": .int(left)]
        append(SSEEncoder.event("auth", data: data.encoded()), to: &bytes)
        return bytes
    }

    /// A clean end. An event stream says after which delay to come back. Firebase's clients come back at once from an
    /// end that says nothing, and count a refusal then as a failure that costs them minutes; they are told where that
    /// would happen.
    ///
    /// - Parameter newest: the scope's newest version, which Firebase's clients want beside the delay; nil says
    ///   nothing.
    func appendEnd(retryMs: Int, newest: VersionNumber? = nil, to bytes: inout [UInt8]) {
        if kind != .invalidations { append(SSEEncoder.retry(milliseconds: retryMs), to: &bytes) }
        if kind == .invalidations, let newest {
            let message = EncodedMessage.Invalidation.json(newest, retryIntervalSeconds: max(1, (retryMs + 999) / 1000))
            append(message + EncodedMessage.Invalidation.keepAlive, to: &bytes)
        }
        if isHTTP11 { bytes.append(contentsOf: ChunkEncoder.last) }
    }
}
