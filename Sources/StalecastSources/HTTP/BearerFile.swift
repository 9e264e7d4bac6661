import Foundation
package import StalecastOutbound
import Synchronization

/// A file that holds a bearer token, read again whenever it changes: the tool that rotates the token writes the file
/// again and restarts nothing. Reading is quick (a `stat`, seldom a small read).
package final class BearerFile: Sendable {
    package let path: String
    private let known = Mutex<(file: LocalFile, token: String)?>(nil)

    /// Larger files are no tokens.
    private static let maxBytes = 16 * 1024

    package init(path: String) { self.path = path }

    /// The token without blanks and line ends around it.
    ///
    /// - Throws: ``LocalFile/Unreadable`` with a sentence that does not repeat it.
    package func token() throws(LocalFile.Unreadable) -> String {
        let identity = LocalFile.Identity(path: path)
        if let token = known.withLock({ $0?.file.identity == identity ? $0?.token : nil }) { return token }
        let file = try LocalFile(path: path, maxBytes: Self.maxBytes)
        let token = try Self.token(in: file)
        known.withLock { $0 = (file, token) }
        return token
    }

    /// Forgets what was read; the next token comes from the file.
    package func forget() { known.withLock { $0 = nil } }

    private static func token(in file: LocalFile) throws(LocalFile.Unreadable) -> String {
        let text = String(decoding: file.bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty else { throw LocalFile.Unreadable("\(file.path) is empty; it must hold the token") }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw LocalFile.Unreadable("\(file.path) holds no token: it must be one word of ASCII")
        }
        return text
    }
}
