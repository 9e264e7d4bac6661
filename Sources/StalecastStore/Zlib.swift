import CZlib

/// Bytes packed and unpacked in one piece.
package enum Zlib {
    /// Packs bytes with zlib at its usual level.
    package static func packed(_ bytes: [UInt8]) -> [UInt8] {
        var size = compressBound(uLong(bytes.count))
        return [UInt8](unsafeUninitializedCapacity: Int(size)) { room, count in
            let status = compress(room.baseAddress, &size, bytes, uLong(bytes.count))
            precondition(status == Z_OK, "compressBound() is enough")
            count = Int(size)
        }
    }

    /// nil unless `packed` unpacks to exactly `size` bytes.
    package static func unpacked(_ packed: [UInt8], size: Int) -> [UInt8]? {
        var length = uLong(size)
        var isWhole = false
        // One more: an empty buffer has no address.
        let bytes = [UInt8](unsafeUninitializedCapacity: size + 1) { room, count in
            isWhole = uncompress(room.baseAddress, &length, packed, uLong(packed.count)) == Z_OK && Int(length) == size
            count = isWhole ? size : 0
        }
        return isWhole ? bytes : nil
    }
}
