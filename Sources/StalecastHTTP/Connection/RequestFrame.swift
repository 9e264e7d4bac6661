/// Finds where the parts of one request end. The parser gets the bytes of one request at a time: the next request is not
/// parsed, queued or judged before this one is answered, and bytes after the request are noticed. The parser decides
/// what is valid; where it disagrees with the frame, the request is refused.
struct RequestFrame: Sendable {
    private enum Part {
        /// The request line, of which so many bytes were seen; `tail` are the last eight.
        case line(length: Int, tail: UInt64)
        /// The header fields; `tail` are the last four bytes.
        case fields(tail: UInt32)
        /// The head is complete and its framing not yet known.
        case headEnd
        case content(left: Int)
        case chunkSize(Int, digits: Int)
        case chunkExtension(Int)
        case chunkData(left: Int)
        /// The line end after a chunk's data.
        case chunkEnd(left: Int)
        /// A line of the trailer section, of which so many bytes were seen.
        case trailer(length: Int)
        case end
    }

    private var part = Part.line(length: 0, tail: 0)
    /// Bytes of a body that are not its content: chunk sizes, extensions, trailers.
    private(set) var overhead = 0
    /// The request line names another protocol that the parser knows: `RTSP/1.0`, `ICE/1.0`.
    private(set) var isForeign = false
    /// The request line ends in `HTTP/1.1` or `HTTP/1.0`.
    private(set) var isHTTP = false
    private(set) var isBroken = false

    var isComplete: Bool { if case .end = part { true } else { false } }
    var isAtHeadEnd: Bool { if case .headEnd = part { true } else { false } }

    mutating func begin(_ framing: RequestHead.Framing) {
        switch framing {
        case .none: part = .end
        case .length(let length): part = .content(left: length)
        case .chunked: part = .chunkSize(0, digits: 0)
        }
    }

    /// Number of `bytes` that belong to this request, up to the end of its head or of its body.
    mutating func extent(of bytes: UnsafeRawBufferPointer) -> Int {
        var index = 0
        while index < bytes.count {
            switch part {
            case .line(let length, let tail): index = scanLine(bytes, index, length, tail)
            case .fields(let tail): index = scanFields(bytes, index, tail)
            case .headEnd, .end: return index
            case .content(let left):
                let count = min(left, bytes.count - index)
                part = count == left ? .end : .content(left: left - count)
                index += count
            case .chunkData(let left):
                let count = min(left, bytes.count - index)
                part = count == left ? .chunkEnd(left: 2) : .chunkData(left: left - count)
                index += count
            case .chunkSize, .chunkExtension, .chunkEnd, .trailer:
                overhead += 1
                scanFraming(bytes[index])
                index += 1
            }
        }
        return index
    }

    // MARK: The head

    private mutating func scanLine(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ length: Int, _ tail: UInt64) -> Int
    {
        var (index, length, tail) = (start, length, tail)
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            // Empty lines before a request are ignored.
            if length == 0, byte == 0x0D || byte == 0x0A { continue }
            if byte == 0x0A {
                isForeign = Self.isForeign(tail)
                // `TTP/1.1` or `TTP/1.0` and a carriage return.
                isHTTP = tail == 0x5454_502F_312E_310D || tail == 0x5454_502F_312E_300D
                part = .fields(tail: UInt32(truncatingIfNeeded: tail << 8 | 0x0A))
                return index
            }
            tail = tail << 8 | UInt64(byte)
            length += 1
        }
        part = .line(length: length, tail: tail)
        return index
    }

    /// Whether a request line that ends so is of `RTSP/x.y` or `ICE/x.y`, which the parser takes for HTTP.
    private static func isForeign(_ tail: UInt64) -> Bool {
        let protocolName = tail >> 32
        // `TSP/` and `ICE/`.
        return protocolName == 0x5453_502F || protocolName == 0x4943_452F
    }

    /// Looks for an empty line, four bytes at a time where there is none.
    private mutating func scanFields(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ tail: UInt32) -> Int {
        var (index, tail) = (start, tail)
        // The empty line may have begun in the bytes before: three more complete it.
        let whole = min(bytes.count, start + 3)
        while index < whole {
            tail = tail << 8 | UInt32(bytes[index])
            index += 1
            if tail == 0x0D0A_0D0A { return headEnded(at: index) }
        }
        while index < bytes.count {
            switch bytes[index] {
            case 0x0A:
                if bytes[index - 1] == 0x0D, bytes[index - 2] == 0x0A, bytes[index - 3] == 0x0D {
                    return headEnded(at: index + 1)
                }
                index += 2
            case 0x0D: index += 1
            // No byte of `\r\n\r\n`: the next one that can end it is four bytes on.
            default: index += 4
            }
        }
        if bytes.count - start >= 4 {
            tail = bytes.suffix(4).reduce(0) { $0 << 8 | UInt32($1) }
        }
        part = .fields(tail: tail)
        return bytes.count
    }

    private mutating func headEnded(at index: Int) -> Int {
        part = .headEnd
        return index
    }

    // MARK: Chunks

    private mutating func scanFraming(_ byte: UInt8) {
        switch part {
        case .chunkSize(let size, let digits): scanSize(byte, size, digits)
        case .chunkExtension(let size): if byte == 0x0A { sizeEnded(size) }
        case .chunkEnd(let left): part = left > 1 ? .chunkEnd(left: left - 1) : .chunkSize(0, digits: 0)
        case .trailer(let length):
            if byte == 0x0A { part = length == 0 ? .end : .trailer(length: 0) }
            if byte != 0x0A, byte != 0x0D { part = .trailer(length: length + 1) }
        default: break
        }
    }

    private mutating func scanSize(_ byte: UInt8, _ size: Int, _ digits: Int) {
        switch byte {
        case 0x0A: sizeEnded(size)
        case 0x0D, UInt8(ascii: ";"), 0x20, 0x09: part = .chunkExtension(size)
        default:
            // 15 hexadecimal digits fit an `Int`.
            guard let digit = PercentEncoding.hexDigit(byte), digits < 15 else { return isBroken = true }
            part = .chunkSize(size << 4 | Int(digit), digits: digits + 1)
        }
    }

    private mutating func sizeEnded(_ size: Int) {
        part = size == 0 ? .trailer(length: 0) : .chunkData(left: size)
    }
}
