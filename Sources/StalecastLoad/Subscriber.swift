/// One connection of the load: where it stands and what it has received. Its loop owns the descriptor.
package struct Subscriber {
    package enum Phase {
        /// The connection is being made; the request is still to be sent.
        case connecting
        /// A head, or a poll's whole answer, is awaited.
        case awaitingHead
        /// Inside a body.
        case reading
        case closed
    }

    /// Progress that a piece of input led to.
    package enum Progress: Equatable {
        case nothing
        /// A poll's answer is complete: the next request is due.
        case answered
        case end(LoadTally.Failure)
    }

    package var descriptor: Int32 = -1
    package var phase = Phase.closed
    /// The stream stood once: `synced` came, or a poll's first answer with its cursor.
    package private(set) var isReady = false
    package private(set) var newestVersion: Int64 = 0
    /// Heartbeats of a stream, or a poll's answers without a message.
    package private(set) var heartbeats = 0
    /// Cursor after which the next poll resumes.
    package private(set) var cursor = ""

    private var framing = AnswerHead.Framing.untilClose
    private var chunks = ChunkDecoder()
    private var events = EventScanner()
    /// A head cut by a read, or the body of a poll's answer.
    private var pending: [UInt8] = []

    package init(descriptor: Int32) {
        self.descriptor = descriptor
        phase = .connecting
    }

    /// Takes what was read from the connection.
    package mutating func receive(_ bytes: Bytes, _ transport: LoadTransport) -> Progress {
        guard phase == .awaitingHead else { return receiveBody(bytes, transport) }
        if pending.isEmpty { return receiveHead(bytes, transport) }
        let searched = pending.count
        var whole: [UInt8] = []
        swap(&whole, &pending)
        whole.append(contentsOf: bytes)
        let progress = whole.withUnsafeBytes { receiveHead($0, transport, searched: searched) }
        if phase == .awaitingHead, progress == .nothing { pending = whole }
        return progress
    }

    private mutating func receiveHead(_ bytes: Bytes, _ transport: LoadTransport, searched: Int = 0) -> Progress {
        guard let head = AnswerHead(bytes, searched: searched) else {
            if searched == 0 { pending = Array(bytes) }
            return bytes.count > AnswerHead.maxBytes ? .end(.broken) : .nothing
        }
        guard head.status == 200 else { return .end(head.status == 0 ? .broken : .status(head.status)) }
        guard transport == .poll || head.isEventStream else { return .end(.broken) }
        phase = .reading
        framing = head.framing
        chunks = ChunkDecoder()
        return receiveBody(bytes.part(head.byteCount..<bytes.count), transport)
    }

    private mutating func receiveBody(_ bytes: Bytes, _ transport: LoadTransport) -> Progress {
        transport == .sse ? receiveStream(bytes) : receiveAnswer(bytes)
    }

    private mutating func receiveStream(_ bytes: Bytes) -> Progress {
        if framing == .chunked {
            _ = chunks.decode(bytes) { events.scan($0) }
        } else {
            events.scan(bytes)
        }
        isReady = events.isSynced
        newestVersion = events.newestVersion
        heartbeats = events.heartbeats
        if chunks.isBroken || events.isBroken { return .end(.broken) }
        return chunks.hasEnded ? .end(.ended) : .nothing
    }

    private mutating func receiveAnswer(_ bytes: Bytes) -> Progress {
        if framing == .chunked {
            _ = chunks.decode(bytes) { pending.append(contentsOf: $0) }
        } else {
            pending.append(contentsOf: bytes)
        }
        let isComplete =
            switch framing {
            case .chunked: chunks.hasEnded
            case .length(let count): pending.count >= count
            case .untilClose: false
            }
        if chunks.isBroken || pending.count > 1 << 20 { return .end(.broken) }
        return isComplete ? finishAnswer() : .nothing
    }

    private mutating func finishAnswer() -> Progress {
        let (cursor, version) = pending.withUnsafeBytes { body -> (String, Int64) in
            guard let start = body.position(after: "\"cursor\":\""), let end = body.position(of: 0x22, from: start)
            else { return ("", 0) }
            return (String(decoding: body[start..<end], as: UTF8.self), body.newestVersion)
        }
        pending.removeAll(keepingCapacity: true)
        guard !cursor.isEmpty else { return .end(.broken) }
        self.cursor = cursor
        newestVersion = max(newestVersion, version)
        if isReady && version == 0 { heartbeats += 1 }
        isReady = true
        phase = .awaitingHead
        return .answered
    }
}
