import Foundation

/// Facts that a subscriber must know of an HTTP answer's head.
struct AnswerHead: Equatable {
    enum Framing: Equatable {
        case chunked
        case length(Int)
        /// The body ends with the connection.
        case untilClose
    }

    /// The answer's status; 0 for what is no HTTP/1.
    let status: Int
    private(set) var framing = Framing.untilClose
    private(set) var isEventStream = false
    /// Bytes of the head, its empty line included.
    let byteCount: Int

    /// Longer heads are refused, in bytes.
    static let maxBytes = 16 << 10

    /// Reads the head at the start of `bytes`; nil while it is incomplete.
    ///
    /// - Parameter searched: so many bytes were there before, and it was incomplete.
    init?(_ bytes: Bytes, searched: Int = 0) {
        // The empty line may have begun in the last three bytes that were searched.
        guard let end = bytes.position(after: "\r\n\r\n", from: max(0, searched - 3)) else { return nil }
        byteCount = end
        status = bytes.begins(with: "HTTP/1.") ? Int(bytes.number(at: 9)) : 0
        var start = 0
        while let lineEnd = bytes.position(of: 0x0A, from: start), lineEnd < end {
            read(field: bytes.part(start..<lineEnd))
            start = lineEnd + 1
        }
    }

    private mutating func read(field: Bytes) {
        if let value = Self.value(of: "content-length:", in: field), framing != .chunked {
            framing = .length(Int(value.number(at: 0)))
        } else if let value = Self.value(of: "transfer-encoding:", in: field), Self.begins(value, with: "chunked") {
            framing = .chunked
        } else if let value = Self.value(of: "content-type:", in: field) {
            isEventStream = Self.begins(value, with: "text/event-stream")
        }
    }

    private static func value(of name: StaticString, in field: Bytes) -> Bytes? {
        guard begins(field, with: name) else { return nil }
        let value = field.part(name.utf8CodeUnitCount..<field.count)
        return value.part((value.firstIndex { $0 != 0x20 && $0 != 0x09 } ?? value.count)..<value.count)
    }

    /// Compares without regard to case.
    private static func begins(_ bytes: Bytes, with text: StaticString) -> Bool {
        guard let base = bytes.baseAddress, bytes.count >= text.utf8CodeUnitCount else { return false }
        return strncasecmp(
            base.assumingMemoryBound(to: CChar.self),
            UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self), text.utf8CodeUnitCount) == 0
    }
}
