import Glibc

/// What tells that a file is another one, or was written to, without reading it.
struct FileStamp: Sendable, Hashable {
    let name: String
    let device: UInt64
    let inode: UInt64
    let bytes: Int64
    /// The later of the two times at which content and properties changed, in nanoseconds since 1970.
    let changed: Int64

    /// - Parameter name: as it is shown to people.
    /// - Throws: ``OriginProblem`` for what is not there or is no regular file.
    init(of path: String, name: String) throws(OriginProblem) {
        var status = stat()
        guard stat(path, &status) == 0 else {
            let reason: OriginProblem.Reason = errno == ENOENT || errno == ENOTDIR ? .notFound : .unreadable
            throw OriginProblem(reason, "\(name) cannot be read: \(String(cString: strerror(errno)))")
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw OriginProblem(.unreadable, "\(name) is no regular file")
        }
        self.name = name
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        bytes = Int64(status.st_size)
        changed = max(Self.nanoseconds(status.st_mtim), Self.nanoseconds(status.st_ctim))
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
