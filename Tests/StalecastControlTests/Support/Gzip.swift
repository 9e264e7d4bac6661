import CZlib

/// Packs bytes as gzip, for requests.
enum Gzip {
    static func pack(_ bytes: [UInt8]) -> [UInt8] {
        let room = Int(compressBound(uLong(bytes.count)))
        var size = uLong(room)
        let zlib = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            precondition(compress(buffer.baseAddress, &size, bytes, uLong(bytes.count)) == Z_OK)
            count = Int(size)
        }
        let deflated = zlib.dropFirst(2).dropLast(4)
        let checksum = crc32(0, bytes, UInt32(bytes.count))
        return [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] + deflated
            + littleEndian(UInt32(checksum)) + littleEndian(UInt32(truncatingIfNeeded: bytes.count))
    }

    private static func littleEndian(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
    }
}
