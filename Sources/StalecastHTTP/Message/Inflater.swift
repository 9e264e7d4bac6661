import CZlib

/// Inflates gzip piece by piece and stops as soon as the result would exceed its cap, however little came in.
package struct Inflater: ~Copyable {
    package enum Failure: Error, Equatable {
        case tooLarge
        /// Input that is not gzip, damaged, or cut off.
        case damaged
    }

    private let cap: Int
    private let stream: UnsafeMutablePointer<z_stream>
    private var isComplete = false
    package private(set) var output: [UInt8] = []

    private static let pieceBytes = 64 * 1024

    /// - Parameter cap: the most bytes the result may have.
    package init(cap: Int) {
        self.cap = cap
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let result = czlib_inflate_gzip_init(stream)
        precondition(result == Z_OK, "zlib has no memory or is another version than its header")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    package static func recognises(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBufferPointer { recognises($0) } }

    package static func recognises(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        bytes.count > 1 && bytes[0] == 0x1F && bytes[1] == 0x8B
    }

    /// Inflates the next piece of input.
    package mutating func feed(_ input: [UInt8]) throws(Failure) {
        guard !input.isEmpty else { return }
        if isComplete { throw .damaged }
        var input = input
        let result = input.withUnsafeMutableBufferPointer { run($0) }
        if let failure = result { throw failure }
    }

    /// The result, once all input was fed.
    package consuming func finish() throws(Failure) -> [UInt8] {
        guard isComplete else { throw .damaged }
        return output
    }

    private mutating func run(_ input: UnsafeMutableBufferPointer<UInt8>) -> Failure? {
        stream.pointee.next_in = input.baseAddress
        stream.pointee.avail_in = UInt32(input.count)
        var status = Z_OK
        repeat {
            status = inflatePiece()
            if output.count > cap { return .tooLarge }
            if status == Z_STREAM_END { return end() }
            guard status == Z_OK || status == Z_BUF_ERROR else { return .damaged }
        } while status == Z_OK && (stream.pointee.avail_in > 0 || stream.pointee.avail_out == 0)
        return nil
    }

    private mutating func end() -> Failure? {
        isComplete = true
        return stream.pointee.avail_in == 0 ? nil : .damaged
    }

    private mutating func inflatePiece() -> Int32 {
        let room = min(Self.pieceBytes, cap - output.count + 1)
        var status = Z_OK
        output.append(
            contentsOf: [UInt8](unsafeUninitializedCapacity: room) { piece, count in
                stream.pointee.next_out = piece.baseAddress
                stream.pointee.avail_out = UInt32(room)
                status = inflate(stream, Z_NO_FLUSH)
                count = room - Int(stream.pointee.avail_out)
            })
        return status
    }
}
