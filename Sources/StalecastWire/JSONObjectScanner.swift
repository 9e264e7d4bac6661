/// Finds whole JSON objects in a stream that arrives cut anywhere, by their braces outside of strings. Looks at each byte
/// once.
package struct JSONObjectScanner: Sendable {
    package enum Step: Sendable {
        /// The byte stands before, between or behind objects.
        case between
        case inside
        case whole([UInt8])
        /// End of an object of more than the permitted bytes, which is skipped.
        case tooLong
    }

    /// Whether the object that has begun is longer than permitted.
    package private(set) var isTooLong = false

    private let maxBytes: Int
    private var object: [UInt8] = []
    /// Depth of braces; 0 outside of objects.
    private var depth = 0
    private var isInString = false
    private var isEscaped = false

    package init(maxBytes: Int) { self.maxBytes = maxBytes }

    package mutating func take(_ byte: UInt8) -> Step {
        if depth == 0 {
            guard byte == UInt8(ascii: "{") else { return .between }
            object.removeAll(keepingCapacity: true)
            isTooLong = false
        }
        if object.count < maxBytes { object.append(byte) } else { isTooLong = true }
        switch byte {
        case _ where isEscaped: isEscaped = false
        case UInt8(ascii: "\\") where isInString: isEscaped = true
        case UInt8(ascii: "\"") where isInString: isInString = false
        case _ where isInString: break
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: "{"): depth += 1
        case UInt8(ascii: "}"): depth -= 1
        default: break
        }
        if depth > 0 { return .inside }
        return isTooLong ? .tooLong : .whole(object)
    }
}
