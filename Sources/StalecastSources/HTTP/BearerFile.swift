import Foundation
import Synchronization

/// A file that holds a bearer token, read again whenever it changes: whoever rotates the token writes the file anew and
/// restarts nothing. Reading is quick (a `stat`, seldom a small read).
package final class BearerFile: Sendable {
    package let path: String
    private let state = Mutex(State())

    private struct State {
        var stamp: Stamp?
        var token: String?
    }

    /// What tells that a file is another one than before.
    private struct Stamp: Equatable {
        let device: UInt64
        let inode: UInt64
        let bytes: Int64
        let seconds: Int
        let nanoseconds: Int

        init?(path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
            bytes = Int64(status.st_size)
            #if canImport(Darwin)
                (seconds, nanoseconds) = (status.st_mtimespec.tv_sec, status.st_mtimespec.tv_nsec)
            #else
                (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
            #endif
        }
    }

    /// Larger files are no tokens.
    private static let maxBytes = 16 * 1024

    package init(path: String) { self.path = path }

    /// The token without blanks and line ends around it.
    ///
    /// - Throws: ``UnreadableToken`` with a sentence that does not repeat it.
    package func token() throws(UnreadableToken) -> String {
        guard let stamp = Stamp(path: path) else { throw UnreadableToken("\(path) cannot be read: \(Self.errorText)") }
        if let known = state.withLock({ $0.stamp == stamp ? $0.token : nil }) { return known }
        let token = try read()
        state.withLock { $0 = State(stamp: stamp, token: token) }
        return token
    }

    /// Forgets what was read; the next token comes from the file.
    package func forget() { state.withLock { $0 = State() } }

    private func read() throws(UnreadableToken) -> String {
        guard let file = fopen(path, "r") else { throw UnreadableToken("\(path) cannot be read: \(Self.errorText)") }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: Self.maxBytes + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        let text = String(decoding: bytes[..<count], as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty else { throw UnreadableToken("\(path) is empty; it must hold the token") }
        guard count <= Self.maxBytes, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw UnreadableToken("\(path) holds no token: it must be one word of ASCII")
        }
        return text
    }

    private static var errorText: String { String(cString: strerror(errno)) }
}

/// Why there is no token; a sentence without it.
package struct UnreadableToken: Error, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
