/// Secret of an OAuth client, from a file of the operator's.
package enum ClientSecret {
    private static let maxBytes = 4096

    /// First line of the file.
    ///
    /// - Throws: a sentence that names the file and does not repeat the secret.
    package static func read(_ path: String) throws(LocalFile.Unreadable) -> String {
        let file = try LocalFile(path: path, maxBytes: maxBytes)
        let line = file.bytes.prefix { $0 != 0x0A && $0 != 0x0D }
        guard !line.isEmpty, line.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            throw LocalFile.Unreadable("\(path) has no secret in its first line, visible ASCII is expected")
        }
        return String(decoding: line, as: UTF8.self)
    }
}
