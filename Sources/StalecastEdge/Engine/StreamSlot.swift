/// What a connection of the engine is doing.
enum Phase: UInt8 {
    case free
    /// Waiting for a request head.
    case head
    /// An event stream that takes live messages by one `send`: HTTP/1.1, one topic, nothing pending.
    case direct
    /// Any other event stream: HTTP/1.0, several topics, or with a backlog.
    case stream
    /// A held long-poll.
    case poll
    /// Dead, waiting for the end of the current walk to be released.
    case doomed
}

/// Everything the engine keeps for an ordinary connection.
struct StreamSlot {
    var fd: Int32 = -1
    /// Grows each time the slot is used anew, so that an event of a former connection is recognised as such.
    var generation: UInt32 = 0
    var phase: Phase = .free
    var isHTTP11 = true
    var keepAlive = true
    /// The connection is over a cap: its request gets a refusal.
    var isRefused = false
    /// A poll that times out answers 304.
    var wantsNotModified = false
    /// Input arrived while a poll was held; it is looked at after the answer.
    var hasInput = false
    var hasBacklog = false
    /// Place in the shard's list of origins; 0 is none.
    var origin: UInt8 = 0
    /// The only topic, or ``several``, or ``none``.
    var topic: Int32 = Self.none
    /// Place in the topic's member list.
    var position: Int32 = 0
    var wheelNext: Int32 = -1
    var wheelPrevious: Int32 = -1
    /// When the wheel fires; 0 is not in the wheel.
    var due: Tick = 0
    var heartbeat: Tick = 0
    /// End of a stream's life, or of a poll's wait.
    var deadline: Tick = 0
    /// The peer, for the ledger.
    var address: UInt64 = 0

    static let none: Int32 = -1
    /// The topics are in the shard's table of streams with several topics.
    static let several: Int32 = -2
}

/// Slots at fixed addresses in pages, handed out lowest first.
///
/// A class confined to its shard's thread: pages are never moved or freed while the shard lives, so that pointers
/// into them stay good across a walk.
final class SlotTable {
    private static let pageSize = 1024

    private var pages: [UnsafeMutablePointer<StreamSlot>] = []
    private var free: [Int32] = []
    private(set) var used = 0

    deinit {
        for page in pages {
            page.deinitialize(count: Self.pageSize)
            page.deallocate()
        }
    }

    /// One past the highest index ever used.
    var end: Int32 { Int32(pages.count * Self.pageSize) }

    @inline(__always)
    subscript(index: Int32) -> UnsafeMutablePointer<StreamSlot> {
        pages[Int(index) / Self.pageSize] + Int(index) % Self.pageSize
    }

    func take() -> Int32 {
        if free.isEmpty { grow() }
        used += 1
        return free.removeLast()
    }

    /// Makes the slot free; its generation moves on.
    func release(_ index: Int32) {
        let generation = self[index].pointee.generation &+ 1
        self[index].pointee = StreamSlot(generation: generation)
        free.append(index)
        used -= 1
    }

    private func grow() {
        let page = UnsafeMutablePointer<StreamSlot>.allocate(capacity: Self.pageSize)
        page.initialize(repeating: StreamSlot(), count: Self.pageSize)
        let first = Int32(pages.count * Self.pageSize)
        pages.append(page)
        free.append(contentsOf: (first..<first + Int32(Self.pageSize)).reversed())
    }
}
