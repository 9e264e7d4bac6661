/// Takes HTTP's chunked framing (RFC 9112 §7.1) off a body that arrives in pieces cut anywhere.
struct ChunkReader {
    private enum Phase: Equatable {
        /// In the line of a chunk's length; behind its digits everything is extension and passed over.
        case length(Int, digits: Int, isExtension: Bool)
        case payload(left: Int)
        /// In the line end behind a chunk's payload.
        case payloadEnd
        /// In the trailer; `isEmpty`: there is nothing on this line so far.
        case trailer(isEmpty: Bool)
        case ended
    }

    private var phase = Phase.length(0, digits: 0, isExtension: false)

    /// The last chunk and the trailer were read.
    var hasEnded: Bool { phase == .ended }

    /// Appends the payload in `bytes` to `payload`.
    mutating func receive(_ bytes: [UInt8], into payload: inout [UInt8]) throws(ResponseReader.Malformed) {
        var index = 0
        while index < bytes.count, phase != .ended {
            if case .payload(let left) = phase {
                let taken = min(left, bytes.count - index)
                payload.append(contentsOf: bytes[index..<index + taken])
                index += taken
                phase = taken == left ? .payloadEnd : .payload(left: left - taken)
            } else {
                try step(bytes[index])
                index += 1
            }
        }
    }

    private mutating func step(_ byte: UInt8) throws(ResponseReader.Malformed) {
        switch (phase, byte) {
        case (.length(let value, let digits, _), 0x0A):
            guard digits > 0 else { throw Self.broken }
            phase = value == 0 ? .trailer(isEmpty: true) : .payload(left: value)
        case (.length(let value, let digits, false), _):
            if let digit = Character(UnicodeScalar(byte)).hexDigitValue {
                guard digits < 8 else { throw Self.broken }
                phase = .length(value << 4 | digit, digits: digits + 1, isExtension: false)
            } else {
                guard digits > 0, [0x0D, 0x3B, 0x20, 0x09].contains(byte) else { throw Self.broken }
                phase = .length(value, digits: digits, isExtension: true)
            }
        case (.payloadEnd, 0x0A): phase = .length(0, digits: 0, isExtension: false)
        case (.payloadEnd, 0x0D): break
        case (.payloadEnd, _): throw Self.broken
        case (.trailer(let isEmpty), 0x0A): phase = isEmpty ? .ended : .trailer(isEmpty: true)
        case (.trailer(let isEmpty), _): phase = .trailer(isEmpty: isEmpty && byte == 0x0D)
        case (.length, _), (.payload, _), (.ended, _): break
        }
    }

    private static let broken = ResponseReader.Malformed(description: "the answer's chunks are not HTTP's")
}
