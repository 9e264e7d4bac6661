import Crypto
import Glibc

/// Checksum of a whole backup, kept in a row of the backup itself: the SHA-256 of the file in which the checksum's own
/// bytes are zeros. SQLite's checks find broken pages and counters, but no changed value.
enum BackupChecksum {
    private static let size = 32
    private static let pieceSize = 1 << 20

    /// Random bytes for the row, by which ``write(to:over:)`` finds the checksum's place in the file.
    static func placeholder() -> [UInt8] { (0..<size).map { _ in .random(in: 0...255) } }

    /// Writes the checksum over the placeholder. No connection may have the file open.
    static func write(to path: String, over placeholder: [UInt8]) throws {
        let (digest, place) = try sum(of: path, without: placeholder)
        guard let place else {
            throw FileOperation.Failure("find the checksum's place in", path, code: EIO)
        }
        let file = open(path, O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { throw FileOperation.Failure("open", path) }
        defer { close(file) }
        guard pwrite(file, digest, size, place) == size else { throw FileOperation.Failure("write", path) }
    }

    /// Whether the file is what it was when `checksum` was written to it.
    static func isRight(_ path: String, _ checksum: [UInt8]) throws -> Bool {
        guard checksum.count == size else { return false }
        return try sum(of: path, without: checksum).digest == checksum
    }

    /// Reads a file through, with zeros in place of the first `known` bytes.
    ///
    /// - Returns: the SHA-256, and the offset of `known`; nil where the file does not have them.
    private static func sum(
        of path: String, without known: [UInt8]
    ) throws(FileOperation.Failure) -> (digest: [UInt8], place: Int?) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw FileOperation.Failure("open", path) }
        defer { close(file) }
        var (hash, place, offset) = (SHA256(), Int?.none, 0)
        // Begins with the last bytes of the piece before: `known` may lie across two pieces.
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceSize + size, alignment: 16)
        defer { room.deallocate() }
        var held = 0
        while true {
            let got = read(file, room.baseAddress! + held, pieceSize)
            guard got >= 0 else { throw FileOperation.Failure("read", path) }
            held += got
            if place == nil, let found = find(known, in: UnsafeRawBufferPointer(rebasing: room[..<held])) {
                place = offset + found
                memset(room.baseAddress! + found, 0, size)
            }
            let ready = got == 0 ? held : max(0, held - size + 1)
            hash.update(bufferPointer: UnsafeRawBufferPointer(rebasing: room[..<ready]))
            memmove(room.baseAddress!, room.baseAddress! + ready, held - ready)
            (held, offset) = (held - ready, offset + ready)
            if got == 0 { return (Array(hash.finalize()), place) }
        }
    }

    /// Offset of `known` in `bytes`.
    private static func find(_ known: [UInt8], in bytes: UnsafeRawBufferPointer) -> Int? {
        var start = 0
        while start + size <= bytes.count {
            guard let hit = memchr(bytes.baseAddress! + start, Int32(known[0]), bytes.count - size + 1 - start)
            else { return nil }
            start = UnsafeRawPointer(hit) - bytes.baseAddress!
            if memcmp(hit, known, size) == 0 { return start }
            start += 1
        }
        return nil
    }
}
