package import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#else
    import Darwin
#endif

/// A file that is either whole or not used. Its first line names the format, a checksum and the length of what
/// follows; it is replaced by writing a neighbour, flushing that, and renaming it, so that a kill or a power cut
/// leaves the old or the new content.
package struct SealedFile: Sendable {
    let url: URL

    package init(url: URL) { self.url = url }

    /// Reason why a file is not used or could not be written.
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    private static let draftSuffix = ".new"
    private static let magic = "stalecast-cache 1"

    /// The content; nil when there is no file.
    ///
    /// - Throws: ``Problem`` when it cannot be read or its seal is broken.
    package func read() throws -> Data? {
        let bytes: Data
        do {
            bytes = try Data(contentsOf: url)
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            return nil
        } catch {
            throw Problem(description: "it cannot be read: \(error)")
        }
        guard let end = bytes.firstIndex(of: 0x0A) else { throw Problem(description: "it has no first line") }
        let content = Data(bytes[bytes.index(after: end)...])
        guard String(decoding: bytes[..<end], as: UTF8.self) == Self.seal(of: content) else {
            throw Problem(description: "its checksum does not match its content")
        }
        return content
    }

    /// Replaces the content; when it returns, the new content is on disk. Makes the directory when there is none.
    package func write(_ content: Data) throws(Problem) {
        let directory = url.deletingLastPathComponent().path
        makeDirectory(directory)
        // Another process may write the same file at the same time.
        let draft = "\(url.path).\(String(UInt32.random(in: .min ... .max), radix: 16))\(Self.draftSuffix)"
        do throws(Problem) {
            try writeFlushed(Data((Self.seal(of: content) + "\n").utf8) + content, to: draft)
            guard rename(draft, url.path) == 0 else { throw problem("rename") }
        } catch {
            unlink(draft)
            throw error
        }
        try flush(directory)
    }

    /// Whether a file's name is that of a draft, which ends in `.<hexadecimal digits>.new`.
    static func isDraft(_ name: String) -> Bool {
        guard name.hasSuffix(draftSuffix) else { return false }
        let stem = name.dropLast(draftSuffix.count)
        guard let dot = stem.lastIndex(of: ".") else { return false }
        return UInt32(stem[stem.index(after: dot)...], radix: 16) != nil
    }

    /// Removes the drafts that killed processes left behind: those older than an hour, which no process writes any more.
    func removeLeftovers() {
        for (path, changed) in CacheDirectory.files(beginningWith: URL(fileURLWithPath: url.path + "."))
        where path.hasSuffix(Self.draftSuffix) && changed.timeIntervalSinceNow < -3600 { unlink(path) }
    }

    private func makeDirectory(_ path: String) {
        if access(path, W_OK) == 0 { return }
        // A failure shows itself, with its reason, when the file is opened.
        try? FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    private func writeFlushed(_ bytes: Data, to path: String) throws(Problem) {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard file >= 0 else { throw problem("open") }
        defer { close(file) }
        var rest = bytes[...]
        while !rest.isEmpty {
            #if canImport(Darwin)
                let count = rest.withUnsafeBytes { Darwin.write(file, $0.baseAddress, $0.count) }
            #elseif canImport(Glibc)
                let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            #elseif canImport(Musl)
                let count = rest.withUnsafeBytes { Musl.write(file, $0.baseAddress, $0.count) }
            #else
                let count = rest.withUnsafeBytes { Android.write(file, $0.baseAddress!, $0.count) }
            #endif
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { throw problem("write") }
            rest = rest.dropFirst(count)
        }
        // The rename must not reach the disk before the content, or a crash leaves an empty file.
        guard fsync(file) == 0 else { throw problem("fsync") }
    }

    /// Makes the rename itself durable. Not every file system lets a directory be flushed; the content is safe anyway.
    private func flush(_ directory: String) throws(Problem) {
        let descriptor = open(directory, O_RDONLY)
        guard descriptor >= 0 else { throw problem("open") }
        _ = fsync(descriptor)
        close(descriptor)
    }

    private func problem(_ call: String) -> Problem {
        Problem(description: "\(call): \(String(cString: strerror(errno)))")
    }

    private static func seal(of content: Data) -> String {
        "\(magic) \(String(checksum(of: content), radix: 16)) \(content.count)"
    }

    /// FNV-1a, 64 bits: every change of a single byte changes it.
    static func checksum(of content: Data) -> UInt64 {
        content.withUnsafeBytes { bytes in
            bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        }
    }
}
