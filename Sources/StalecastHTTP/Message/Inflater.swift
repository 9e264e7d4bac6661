import CZlib

/// Inflates gzip and stops as soon as the result would exceed its cap, however little came in.
package enum Inflater {
    private static let pieceBytes = 64 * 1024

    package static func recognises(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBufferPointer { recognises($0) } }

    package static func recognises(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        bytes.count > 1 && bytes[0] == 0x1F && bytes[1] == 0x8B
    }

    /// - Parameter cap: the most bytes the result may have.
    /// - Throws: 413 beyond `cap`; 400 for input that is not gzip, damaged, or cut off.
    static func inflate(_ bytes: [UInt8], cap: Int) throws(GoogleError) -> [UInt8] {
        var (input, output, stream) = (bytes, [UInt8](), z_stream())
        // One scope for all calls: zlib remembers the address of its stream.
        let isWhole = withUnsafeMutablePointer(to: &stream) { stream in
            input.withUnsafeMutableBufferPointer { input in
                let result = czlib_inflate_gzip_init(stream)
                precondition(result == Z_OK, "zlib has no memory or is another version than its header")
                defer { inflateEnd(stream) }
                (stream.pointee.next_in, stream.pointee.avail_in) = (input.baseAddress, UInt32(input.count))
                // Input that was cut off ends in Z_BUF_ERROR: then a call makes no progress.
                while output.count <= cap {
                    let status = inflatePiece(of: stream, most: cap - output.count + 1, into: &output)
                    if status != Z_OK { return status == Z_STREAM_END && stream.pointee.avail_in == 0 }
                }
                return false
            }
        }
        if output.count > cap { throw .bodyTooLarge(limit: cap) }
        guard isWhole else { throw .invalidArgument("The request body begins as gzip but cannot be inflated.") }
        return output
    }

    private static func inflatePiece(
        of stream: UnsafeMutablePointer<z_stream>, most: Int, into output: inout [UInt8]
    ) -> Int32 {
        let room = min(pieceBytes, most)
        var status = Z_OK
        output += [UInt8](unsafeUninitializedCapacity: room) { piece, count in
            (stream.pointee.next_out, stream.pointee.avail_out) = (piece.baseAddress, UInt32(room))
            status = CZlib.inflate(stream, Z_NO_FLUSH)
            count = room - Int(stream.pointee.avail_out)
        }
        return status
    }
}
