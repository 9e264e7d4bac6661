import StalecastHTTP

/// Takes HTTP's chunked framing (RFC 9112 §7.1) off a body that arrives in pieces cut anywhere.
package struct ChunkDecoder {
    package init() {}

    private enum State: Equatable {
        /// Inside a length line; `digits` hexadecimal ones were read. Extensions after `;` are passed over.
        case length(value: Int, digits: Int, isExtension: Bool)
        case payload(left: Int)
        /// Inside the line end after a chunk's payload.
        case payloadEnd
        /// Inside the trailer section; `isEmptyLine`: nothing but a CR on this line so far.
        case trailer(isEmptyLine: Bool)
        case ended
        case broken
    }

    private var state = State.length(value: 0, digits: 0, isExtension: false)

    /// The last chunk and its trailer were read.
    package var hasEnded: Bool { state == .ended }
    /// The framing was not HTTP's; nothing more can be read.
    package var isBroken: Bool { state == .broken }

    /// Hands each piece of payload in `bytes` to `take`, in order; returns how many bytes belong to this body.
    package mutating func decode(_ bytes: Bytes, _ take: (Bytes) -> Void) -> Int {
        var index = 0
        while index < bytes.count {
            switch state {
            case .payload(let left):
                let end = min(index + left, bytes.count)
                take(bytes.part(index..<end))
                state = end - index == left ? .payloadEnd : .payload(left: left - (end - index))
                index = end
            case .ended, .broken: return index
            default:
                step(bytes[index])
                index += 1
            }
        }
        return index
    }

    /// One byte of the framing.
    private mutating func step(_ byte: UInt8) {
        switch state {
        case .length(let value, let digits, let isExtension): lengthLine(byte, value, digits, isExtension)
        case .payloadEnd where byte == 0x0A: state = .length(value: 0, digits: 0, isExtension: false)
        case .payloadEnd: if byte != 0x0D { state = .broken }
        case .trailer(let isEmptyLine) where byte == 0x0A: state = isEmptyLine ? .ended : .trailer(isEmptyLine: true)
        case .trailer(let isEmptyLine): state = .trailer(isEmptyLine: isEmptyLine && byte == 0x0D)
        case .payload, .ended, .broken: break
        }
    }

    private mutating func lengthLine(_ byte: UInt8, _ value: Int, _ digits: Int, _ isExtension: Bool) {
        if byte == 0x0A {
            guard digits > 0 else { return state = .broken }
            state = value == 0 ? .trailer(isEmptyLine: true) : .payload(left: value)
        } else if let digit = PercentEncoding.hexDigit(byte), !isExtension {
            state =
                digits < 8 ? .length(value: value << 4 | Int(digit), digits: digits + 1, isExtension: false) : .broken
        } else if isExtension || [0x0D, 0x3B, 0x20, 0x09].contains(byte) {
            state = .length(value: value, digits: digits, isExtension: true)
        } else {
            state = .broken
        }
    }
}
