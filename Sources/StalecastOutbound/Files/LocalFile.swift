package import Glibc

/// The content of a small file of the operator's (a certificate, a token, a secret), with what tells that it was
/// replaced since.
package struct LocalFile: Sendable, Equatable {
    package let path: String
    package let identity: Identity
    package let bytes: [UInt8]

    /// Larger files hold no certificates, tokens or secrets: the bundle of all public authorities has 220 KB.
    package static let maxBytes = 2 << 20

    /// Reads a regular file whole; what is larger than `maxBytes`, or is no regular file (a FIFO would hold the thread
    /// for as long as no process writes to it), is refused.
    ///
    /// - Throws: ``LocalFile/Unreadable``, a sentence that names the file.
    package init(path: String, maxBytes: Int = Self.maxBytes) throws(Unreadable) {
        // What opens slowly, as a FIFO does, is no regular file.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { throw Unreadable(path, errno: errno) }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw Unreadable(path, errno: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Unreadable("\(path) is no regular file") }
        self.path = path
        identity = Identity(status)
        bytes = try Self.content(of: file, path, expected: Int(clamping: status.st_size), maxBytes)
    }

    /// `known` when that is what the path still shows, else the file read now.
    package static func current(_ path: String, known: LocalFile?) throws(Unreadable) -> LocalFile {
        if let known, known.path == path, known.identity == Identity(path: path) { return known }
        return try LocalFile(path: path)
    }

    /// Compares by identity, not by content.
    package static func == (one: LocalFile, other: LocalFile) -> Bool {
        one.path == other.path && one.identity == other.identity
    }

    /// One byte more is asked for than expected: a file may have grown, and files of `/proc` are longer than they say.
    private static func content(
        of file: Int32, _ path: String, expected: Int, _ maxBytes: Int
    ) throws(Unreadable) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count <= maxBytes {
            let room = min(max(expected - bytes.count, 4095), maxBytes - bytes.count) + 1
            var failure: Int32 = 0
            let piece = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                let read = read(file, buffer.baseAddress, room)
                if read < 0 { failure = errno }
                count = max(0, read)
            }
            if failure == EINTR { continue }
            guard failure == 0 else { throw Unreadable(path, errno: failure) }
            if piece.isEmpty { return bytes }
            bytes += piece
        }
        throw Unreadable("\(path) is larger than \(maxBytes) bytes")
    }

    /// Facts that tell, without reading it, that a file is another one than before, or was written to.
    package struct Identity: Sendable, Hashable {
        private let device: UInt64
        private let inode: UInt64
        /// Size that the file claims, which may be any number: a sparse file costs nothing.
        package let bytes: Int64
        /// Time when the content changed, since 1970. Any time that 64 bits of seconds can say, so it is no number of
        /// nanoseconds: 2300 does not fit into those.
        package let modified: Duration
        /// Time when content or properties changed.
        package let changed: Duration

        package init(_ status: stat) {
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
            bytes = Int64(status.st_size)
            modified = Duration(time: status.st_mtim)
            changed = Duration(time: status.st_ctim)
        }

        /// nil when there is nothing; `errno` says why.
        package init?(path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            self.init(status)
        }
    }

    /// Reason why a file is of no use; a sentence that names it and repeats nothing of it.
    package struct Unreadable: Error, Hashable, CustomStringConvertible {
        package let description: String
        /// Whether there is nothing at the path.
        package let isMissing: Bool

        package init(_ description: String, isMissing: Bool = false) {
            self.description = description
            self.isMissing = isMissing
        }

        init(_ path: String, errno code: Int32) {
            self.init("\(path) cannot be read: \(String(cString: strerror(code)))", isMissing: code == ENOENT)
        }
    }
}

extension Sequence<LocalFile.Identity> {
    /// Size of all files together, at most `Int64.max`: sparse files may claim any size.
    package var bytes: Int64 {
        reduce(0) { total, identity in
            let (sum, isMore) = total.addingReportingOverflow(Swift.max(0, identity.bytes))
            return isMore ? .max : sum
        }
    }
}

extension Duration {
    /// Cannot overflow: a duration has 128 bits of attoseconds.
    package init(time: timespec) { self = .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec) }
}
