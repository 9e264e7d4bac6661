/// Error of bytes that are no message.
package struct ProtobufError: Error, Sendable, CustomStringConvertible {
    package let description: String
}

/// Reads the fields of a protobuf message in the order they come; a message within it is another reader's. Looks at
/// each byte once, allocates nothing, and never traps.
package struct ProtobufReader: Sendable {
    package enum Value: Sendable {
        case number(UInt64)
        case bytes(ArraySlice<UInt8>)
        /// Field of a kind that etcd has no use for; skipped.
        case other
    }

    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }
    package init(_ bytes: [UInt8]) { rest = bytes[...] }

    /// The next field; nil at the end.
    package mutating func next() throws(ProtobufError) -> (field: UInt64, value: Value)? {
        guard !rest.isEmpty else { return nil }
        let key = try varint()
        guard key >> 3 > 0 else { throw ProtobufError(description: "a field has the number 0") }
        switch key & 7 {
        case 0: return (key >> 3, .number(try varint()))
        case 1: return (key >> 3, try skip(8))
        case 2:
            let count = try varint()
            guard let count = Int(exactly: count), count <= rest.count else {
                throw ProtobufError(description: "a field is longer than its message")
            }
            defer { rest = rest.dropFirst(count) }
            return (key >> 3, .bytes(rest.prefix(count)))
        case 5: return (key >> 3, try skip(4))
        // Kinds 3 and 4 are groups, which proto3, the language of etcd's messages, does not have.
        default: throw ProtobufError(description: "a field is of no known kind")
        }
    }

    private mutating func skip(_ count: Int) throws(ProtobufError) -> Value {
        guard rest.count >= count else { throw ProtobufError(description: "a field is cut off") }
        rest = rest.dropFirst(count)
        return .other
    }

    /// Reads at most ten bytes; bits beyond the 64th are dropped, as all readers do.
    private mutating func varint() throws(ProtobufError) -> UInt64 {
        var value: UInt64 = 0
        for (place, byte) in rest.prefix(10).enumerated() {
            value |= UInt64(byte & 0x7F) << UInt64(7 * place)
            if byte < 0x80 {
                rest = rest.dropFirst(place + 1)
                return value
            }
        }
        throw ProtobufError(description: "a number does not end")
    }
}

extension ProtobufReader {
    /// Calls `take` with each field.
    package static func each(
        _ bytes: ArraySlice<UInt8>, _ take: (UInt64, Value) throws(ProtobufError) -> Void
    ) throws(ProtobufError) {
        var reader = ProtobufReader(bytes)
        while let (field, value) = try reader.next() { try take(field, value) }
    }
}

extension ProtobufReader.Value {
    /// A number as protobuf's int64 has it; 0 for anything else.
    package var int64: Int64 { if case .number(let number) = self { Int64(bitPattern: number) } else { 0 } }
    package var isTrue: Bool { int64 != 0 }
    /// Empty for anything else.
    package var slice: ArraySlice<UInt8> { if case .bytes(let bytes) = self { bytes } else { [] } }
    package var text: String { String(decoding: slice, as: UTF8.self) }
}

/// Writes a protobuf message.
package struct ProtobufWriter: Sendable {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// Writes a number, also 0: in a choice of fields it says which.
    package mutating func number(_ field: UInt64, _ value: Int64) {
        varint(field << 3)
        varint(UInt64(bitPattern: value))
    }

    package mutating func flag(_ field: UInt64, _ value: Bool) { if value { number(field, 1) } }

    package mutating func bytes(_ field: UInt64, _ value: some Collection<UInt8>) {
        varint(field << 3 | 2)
        varint(UInt64(value.count))
        bytes.append(contentsOf: value)
    }

    package mutating func message(_ field: UInt64, _ write: (inout ProtobufWriter) -> Void) {
        var inner = ProtobufWriter()
        write(&inner)
        bytes(field, inner.bytes)
    }

    private mutating func varint(_ value: UInt64) {
        var value = value
        while value >= 0x80 {
            bytes.append(UInt8(value & 0x7F) | 0x80)
            value >>= 7
        }
        bytes.append(UInt8(value))
    }
}
