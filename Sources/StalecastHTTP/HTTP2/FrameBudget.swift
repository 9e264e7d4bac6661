/// Budgets of an HTTP/2 client's bytes beside bodies: 1.25 MiB of heads at once, 64 KiB of other frames, a 32nd part of
/// each a second after that, and something for everything it is sent or answered. nio-http2 bounds most floods, but not those of
/// WINDOW_UPDATE and of frames of unknown type, and it keeps what it refuses; so frames are counted in front of it, by their
/// headers alone.
package struct FrameBudget: Sendable {
    /// Largest balance: bytes of frames other than heads and bodies that a client may send at once.
    package static let capacity = 64 * 1024
    /// Largest balance of heads: 128 streams, as many as a connection may have, with 10 KiB each: the longest token (8 KiB)
    /// and other fields. A multiple of ``capacity``.
    package static let headCapacity = 128 * 10 * 1024
    /// Bytes for an answered request: a few frames about it. Its head is given back whole.
    package static let perAnswer = 2 * 1024
    /// Nanoseconds in which an empty balance becomes full.
    private static let refillTime: UInt64 = 32_000_000_000
    /// Bytes for a DATA frame of ours: two WINDOW_UPDATEs acknowledge it.
    package static let perDataFrame = 32
    /// A frame's header (RFC 9113 §4.1), and what the client's preface has before its first frame (§3.4).
    private static let headerBytes = 9
    private static let prefaceBytes = 24
    /// Cost of a DATA frame, whatever is in it: bodies have limits of their own.
    private static let dataFrameCost = 16

    private var left = capacity
    private var headsLeft = headCapacity
    private var refilledAt: UInt64
    /// Bytes to be passed over: the preface's, or a payload's.
    private var skipping = prefaceBytes
    /// The first four bytes of a frame's header (its length and type), the last four (its stream), and how many of the
    /// header were seen.
    private var header: UInt32 = 0
    private var stream: UInt32 = 0
    private var headerSeen = 0
    /// Costs of heads without an answer, by stream. Of more than ``maxHeads`` the oldest is forgotten: of a head that
    /// nio-http2 drops, and of trailers behind an answer, no end is told.
    private var heads: [UInt32: Int] = [:]
    private static let maxHeads = 256

    /// - Parameter now: nanoseconds of a monotonic clock.
    package init(at now: UInt64) { refilledAt = now }

    /// False: the client has sent more than it may. Each byte is looked at once, a payload's not at all.
    package mutating func take(_ bytes: some RandomAccessCollection<UInt8>, at now: UInt64) -> Bool {
        refill(at: now)
        var index = bytes.startIndex
        while index < bytes.endIndex {
            if skipping > 0 {
                let count = min(skipping, bytes.distance(from: index, to: bytes.endIndex))
                skipping -= count
                index = bytes.index(index, offsetBy: count)
                continue
            }
            // The byte between the two has the flags, which cost nothing.
            if headerSeen < 4 { header = header << 8 | UInt32(bytes[index]) }
            if headerSeen > 4 { stream = stream << 8 | UInt32(bytes[index]) }
            headerSeen += 1
            index = bytes.index(after: index)
            if headerSeen == Self.headerBytes { charge() }
        }
        return left >= 0 && headsLeft >= 0
    }

    /// Something was sent to the client, which makes it send something.
    package mutating func credit(_ bytes: Int) { left = min(left + bytes, Self.capacity) }

    /// A stream has ended. An answered request's head is given back: the heads of all clients of a proxy come on one
    /// connection.
    package mutating func ended(_ stream: UInt32, isAnswered: Bool) {
        let cost = heads.removeValue(forKey: stream) ?? 0
        guard isAnswered else { return }
        headsLeft = min(headsLeft + cost, Self.headCapacity)
        credit(Self.perAnswer)
    }

    private mutating func charge() {
        let (length, type) = (Int(header >> 8), header & 0xFF)
        // HEADERS and CONTINUATION.
        if type == 1 || type == 9 {
            note(Self.headerBytes + length, of: stream & 0x7FFF_FFFF)
        } else {
            left -= type == 0 ? Self.dataFrameCost : Self.headerBytes + length
        }
        skipping = length
        header = 0
        headerSeen = 0
    }

    private mutating func note(_ cost: Int, of stream: UInt32) {
        headsLeft -= cost
        if heads[stream] == nil, heads.count >= Self.maxHeads, let oldest = heads.keys.min() { heads[oldest] = nil }
        heads[stream, default: 0] += cost
    }

    private mutating func refill(at now: UInt64) {
        guard now > refilledAt else { return }
        let nanoseconds = Self.refillTime / UInt64(Self.capacity)
        let earned = Int(min((now - refilledAt) / nanoseconds, UInt64(Self.capacity)))
        guard earned > 0 else { return }
        refilledAt = now
        credit(earned)
        headsLeft = min(headsLeft + earned * (Self.headCapacity / Self.capacity), Self.headCapacity)
    }
}
