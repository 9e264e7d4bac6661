import Glibc

/// Data directory of an open store, which it alone may write.
struct StoreFiles: Sendable {
    let directory: DataDirectory
    let lock: DirectoryLock
    /// Identity of the database file at the opening; nil when it could not be read.
    let database: FileOperation.Identity?

    init(_ directory: DataDirectory, _ lock: DirectoryLock) {
        (self.directory, self.lock) = (directory, lock)
        database = try? FileOperation.identity(directory.database)  // nil refuses the first publish, with the reason
    }
}

/// The right to write in a data directory: an exclusive `flock` on `lock`, which names the holder's process id. The
/// kernel gives it up when the process ends, however it ends, so there is no stale lock.
final class DirectoryLock: Sendable {
    private let descriptor: Int32

    /// - Throws: ``StoreError/locked(_:)`` when another store, in this process or another, holds it.
    init(_ directory: DataDirectory) throws(StoreError) {
        // The content stays (no O_TRUNC): until the lock is had it names the holder, for the sentence below.
        let file = open(directory.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw .inaccessible("\(FileOperation.Failure("open", directory.lock))") }
        guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            defer { close(file) }
            guard code == EWOULDBLOCK else {
                throw .inaccessible("\(FileOperation.Failure("flock", directory.lock, code: code))")
            }
            throw .locked(Self.sentence(directory, holder: Self.holder(file)))
        }
        descriptor = file
        writeHolder()
    }

    deinit { close(descriptor) }

    /// Gives the directory up before the object ends.
    func release() { _ = flock(descriptor, LOCK_UN) }

    /// The process id is for people; a full disk must not keep the daemon from starting, so failing is no error.
    private func writeHolder() {
        let text = Array("\(getpid())\n".utf8)
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.count, 0)
    }

    private static func holder(_ file: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(file, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        return Int32(String(decoding: bytes.prefix(count).prefix { $0 != 0x0A }, as: UTF8.self))
    }

    private static func sentence(_ directory: DataDirectory, holder: Int32?) -> String {
        "the data directory \(directory.path) is in use by "
            + (holder.map { "process \($0)" } ?? "another process")
            + "; stop that one first or choose another directory with --data"
    }
}
