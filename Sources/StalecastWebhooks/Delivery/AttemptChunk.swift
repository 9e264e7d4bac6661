import StalecastOutbound
import StalecastWire

/// Attempts that were written together: one row for many, because there is an attempt for every request, and a row in
/// an index for each of them would change a page of the database for each webhook.
///
/// Each attempt names the one before it of the same webhook, so that a webhook's attempts are found from its last one.
/// Before each stands its length, four bytes, least significant first.
struct AttemptChunk {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    static let capacity = 64

    init() { bytes.reserveCapacity(Self.capacity * 160) }

    var isFull: Bool { count >= Self.capacity }

    /// - Parameters:
    ///   - previous: ``id(chunk:index:)`` of the webhook's attempt before it; 0 for none.
    ///   - rest: what ``AttemptRecord/appendRest(of:to:)`` wrote of it.
    mutating func append(_ webhook: WebhookID, previous: Int64, rest: UnsafeRawBufferPointer) {
        let start = bytes.count
        bytes.append(contentsOf: [0, 0, 0, 0])
        AttemptRecord.appendStart(webhook, previous: previous, to: &bytes)
        bytes.append(contentsOf: rest)
        let length = bytes.count - start - 4
        for index in 0..<4 { bytes[start + index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        count += 1
    }

    /// Begins the next chunk in the memory of this one.
    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        count = 0
    }

    /// Names an attempt, in the order of writing; `chunk` from 1.
    static func id(chunk: Int64, index: Int) -> Int64 { chunk * Int64(capacity) + Int64(index) }
    static func chunk(of id: Int64) -> Int64 { id / Int64(capacity) }

    /// Nil when these bytes have no such attempt.
    static func record(of id: Int64, in bytes: [UInt8]) -> AttemptRecord? {
        var start = 0
        for _ in 0..<(id % Int64(capacity)) {
            guard let length = length(at: start, bytes) else { return nil }
            start += 4 + length
        }
        guard let length = length(at: start, bytes) else { return nil }
        return AttemptRecord(bytes[(start + 4)..<(start + 4 + length)])
    }

    /// Length of the attempt whose length field stands at `start`.
    private static func length(at start: Int, _ bytes: [UInt8]) -> Int? {
        guard start + 4 <= bytes.count else { return nil }
        let length = (0..<4).reduce(0) { $0 | Int(bytes[start + $1]) << (8 * $1) }
        return length <= bytes.count - start - 4 ? length : nil
    }
}
