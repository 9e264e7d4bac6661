import NIOCore
import StalecastHTTP
import StalecastHub
import StalecastWire

/// State of an ordinary connection of the engine, or of a subscriber of the Front, whose channel has the descriptor and
/// the TLS.
package struct StreamSlot {
    /// Cover of the bytes on the socket. The slot's to free; first, because its tag then takes no room of its own.
    var cover = Cover.plain
    var phase: Phase = .free
    var request = Request()
    var input = Input()
    var hasBacklog = false
    /// The kernel may hold more for it than for a stream: it had a large answer to a fetch.
    var hasRoom = false
    /// Place in the shard's list of origins; 0 means no origin.
    var origin: UInt16 = 0
    var fd: Int32 = -1
    /// Grows each time the slot is used again, so that an event of a former connection is recognised as such.
    var generation: UInt32 = 0
    /// The only topic, or ``several``, or ``none``.
    var topic: Int32 = Self.none
    var position: Int32 = 0
    var timer = TimerWheel.Entry()
    var times = Times()
    var client = Client()
    /// The low bits of what was announced when the stream began.
    var joined: UInt32 = 0

    /// The last request: its form decides how the answer or the stream is written.
    struct Request {
        var isHTTP11 = true
        var keepAlive = true
        /// Kind of its stream, or of the last request of a stream's form.
        var kind = StreamRequest.Kind.events
        var wantsNotModified = false
    }

    /// Bytes from the client, before and after its request.
    struct Input {
        /// The connection is over a cap: its request gets a refusal.
        var isRefused = false
        /// Nothing was read from its proxy yet.
        var awaitsProxyHeader = false
        /// The socket reported input, or its end, while a request or records read before were not answered yet. It reports
        /// once, so the socket is looked at after the answer.
        var hasMore = false
        /// Number of times that bytes came and the body of its fetch was still not whole.
        var waits: UInt8 = 0
        /// TLS records that a stream's client sent since it was last written to.
        var heard: UInt8 = 0
    }

    /// Ticks at which the audience does something for the stream.
    struct Times {
        var heartbeat: Tick = 0
        /// End of a stream's life, or of a poll's wait.
        var deadline: Tick = 0
        /// Time of the warning that the credential ends soon; 0: no warning is due, or it was sent.
        var warning: Tick = 0

        /// Time of the next event of a stream without a backlog.
        var next: Tick { min(heartbeat, deadline, warning == 0 ? .max : warning) }
    }

    /// Identity of the client, as it opened its stream.
    struct Client {
        /// The peer, for the ledger.
        var address: UInt64 = 0
        /// Number of the principal whose credential opened the stream; 0: no credential. See ``Principal/number``.
        var principal: Int32 = 0
        /// The key of `edge.apiKeys` that opened the stream: see ``APIKeys/mark(_:)``.
        var apiKey: UInt32 = 0
        /// Leads to the stage of a release: see ``ClientKey``.
        var key: UInt32 = 0
    }

    /// A stream that takes messages.
    var isStream: Bool { phase == .direct || phase == .stream }
    var isSubscriber: Bool { isStream || phase == .poll }
    var isPlain: Bool { if case .plain = cover { true } else { false } }
    /// See ``TLSSession/isAhead``.
    var isAhead: Bool { if case .session(let tls) = cover { tls.isAhead } else { false } }
    /// Plain and chunked: with nothing pending a live message is one `send`. A ping is not what its topic's other
    /// streams get.
    var isOrdinary: Bool { request.isHTTP11 && isPlain && request.kind != .pings }
    /// Whether a live message is one record: over TLS, chunked, and nothing is pending.
    var isSealed: Bool { request.isHTTP11 && !hasBacklog && !isPlain && request.kind != .pings }

    var dialect: StreamDialect { StreamDialect(isHTTP11: request.isHTTP11, kind: request.kind) }

    static let none: Int32 = -1
    /// The topics are in the shard's table of streams with several topics.
    static let several: Int32 = -2

    enum Cover {
        case plain
        /// BoringSSL's: any connection over TLS at first.
        case session(TLSSession)
        /// Our own: a stream over TLS 1.3 that once was written to the end.
        case records(TLSRecords)
    }

    enum Phase: UInt8 {
        case free
        case head
        /// Waiting until the token in its request was looked at.
        case verifying
        /// A stream that takes live messages by one `send`: plain HTTP/1.1, nothing pending.
        case direct
        /// Any other stream: HTTP/1.0, over TLS, or with a backlog.
        case stream
        case poll
        /// An answer to a poll or a fetch that did not fit into the socket at once.
        case answering
        /// Dead, waiting for the end of the current fan-out to be released.
        case doomed
    }
}

/// Slots at fixed addresses in pages, handed out lowest first.
///
/// A class confined to its shard's thread: pages are never moved or freed while the shard lives, so that pointers
/// into them stay good across a fan-out.
package final class SlotTable {
    private static let pageSize = 1024
    /// Room for 4,194,304 slots, far beyond any descriptor limit.
    private static let maxPages = 4096

    /// A plain table of pointers: the fan-out reads it for each delivery, without reference counts or bounds checks.
    private let pages = UnsafeMutablePointer<UnsafeMutablePointer<StreamSlot>>.allocate(capacity: maxPages)
    private var pageCount = 0
    private var free: [Int32] = []
    package private(set) var used = 0

    deinit {
        for page in 0..<pageCount {
            pages[page].deinitialize(count: Self.pageSize)
            pages[page].deallocate()
        }
        pages.deallocate()
    }

    /// One past the highest index ever used.
    var end: Int32 { Int32(pageCount * Self.pageSize) }

    @inline(__always)
    subscript(index: Int32) -> UnsafeMutablePointer<StreamSlot> {
        let index = Int(UInt32(bitPattern: index))
        return pages[index / Self.pageSize] + index % Self.pageSize
    }

    func take() -> Int32 {
        if free.isEmpty { grow() }
        used += 1
        return free.removeLast()
    }

    /// Makes the slot free; its generation moves on.
    package func release(_ index: Int32) {
        let generation = self[index].pointee.generation &+ 1
        self[index].pointee = StreamSlot(generation: generation)
        free.append(index)
        used -= 1
    }

    private func grow() {
        precondition(pageCount < Self.maxPages, "more connections than descriptors can be")
        let page = UnsafeMutablePointer<StreamSlot>.allocate(capacity: Self.pageSize)
        page.initialize(repeating: StreamSlot(), count: Self.pageSize)
        let first = end
        pages[pageCount] = page
        pageCount += 1
        free.append(contentsOf: (first..<first + Int32(Self.pageSize)).reversed())
    }
}

/// Rest of one write that a stalled stream still has to be sent. Newer messages are not stored; when the rest is out,
/// the board says what the newest of each topic is. Over TLS the rest begins with the record that was begun, as
/// ``TLSSession/send(_:_:)`` and ``TLSRecords`` want it.
package struct Backlog {
    var bytes: [UInt8]
    var offset = 0
    /// Bytes after `bytes`: the body of a fetch's answer, which requests share.
    var body = ByteBuffer()
    /// Sequence up to which the subscriber has everything once `bytes` are written.
    var through: CommitSequence
    /// The newest data message that came meanwhile; a later one takes its place.
    var data: DataMessage?
    /// Messages held back since the stall began.
    var deferred = 0
    /// Time when the client was last seen to have taken a byte.
    var progress: Tick
    /// Bytes that its end of the connection had acknowledged by then.
    var acknowledged: UInt64
    /// The first version of which the client has not got the whole message; nil when it has got all that were
    /// announced.
    var unsentSince: CommitSequence?

    /// Notes that the newest message of `sequence` is not in the backlog's bytes.
    mutating func missed(_ sequence: CommitSequence) {
        deferred += 1
        unsentSince = min(unsentSince ?? .max, sequence)
    }

    var count: Int { bytes.count - offset + body.readableBytes }
    var rest: ArraySlice<UInt8> { bytes[offset...] }
}
