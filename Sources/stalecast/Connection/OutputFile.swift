import Foundation

/// A file that a result is written to. A regular file is replaced in one step, its mode and a symbolic link to it kept;
/// what is no regular file (a device, a FIFO) is written through.
enum OutputFile {
    /// - Parameter mode: what a regular file ends with, whatever its own was and the umask; nil keeps its own.
    /// - Throws: ``CommandFailure`` when it cannot be written; a regular file then holds what it held.
    static func write(_ bytes: [UInt8], to path: String, mode: mode_t? = nil) throws(CommandFailure) {
        var status = stat()
        let exists = stat(path, &status) == 0
        let isRegular = status.st_mode & S_IFMT == S_IFREG
        do {
            if exists, !isRegular { return try fill(try opened(path, O_WRONLY), bytes) }
            let target = exists ? try resolved(path) : path
            // The temporary file lies beside the target: a rename works on one file system only.
            let draft = "\(target).\(getpid()).draft"
            let given = mode ?? (exists ? status.st_mode & 0o7777 : 0o666)
            let descriptor = try opened(draft, O_WRONLY | O_CREAT | O_EXCL, given)
            do {
                // The umask counts for new files only, and not where a mode is asked for.
                if exists || mode != nil { fchmod(descriptor, given) }
                try fill(descriptor, bytes)
                guard rename(draft, target) == 0 else { throw failure() }
            } catch {
                unlink(draft)
                throw error
            }
        } catch {
            throw CommandFailure(.refused, "\(path) cannot be written (\(error.reason))")
        }
    }

    private static func fill(_ descriptor: Int32, _ bytes: [UInt8]) throws {
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try file.write(contentsOf: Data(bytes))
        // Devices and pipes have nothing to synchronise.
        if fsync(descriptor) != 0, errno != EINVAL, errno != EROFS { throw failure() }
    }

    private static func opened(_ path: String, _ flags: Int32, _ mode: mode_t = 0) throws -> Int32 {
        let descriptor = open(path, flags | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw failure() }
        return descriptor
    }

    private static func resolved(_ path: String) throws -> String {
        guard let real = realpath(path, nil) else { throw failure() }
        defer { free(real) }
        return String(cString: real)
    }

    private static func failure() -> any Error { POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
}
