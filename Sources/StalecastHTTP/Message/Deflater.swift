import CZlib

/// Packs bytes as gzip, in one piece.
package enum Deflater {
    /// - Parameter most: the most bytes that the result may have.
    /// - Returns: nil where it would have more.
    package static func gzip(_ bytes: [UInt8], most: Int) -> [UInt8]? {
        let packed = [UInt8](unsafeUninitializedCapacity: most) { room, count in
            count = czlib_gzip(bytes, bytes.count, room.baseAddress, most)
        }
        return packed.isEmpty ? nil : packed
    }
}
