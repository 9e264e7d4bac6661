package import Foundation

/// A file named on the command line. Pipes and devices are as good as files, above all a shell's `<(…)`, which
/// Foundation's `Data(contentsOf:)` refuses.
package enum InputFile {
    /// All of it; `-` is standard input. Waits for the writer of a pipe.
    ///
    /// - Parameter maxBytes: reading ends when there is more; then what is returned is longer.
    package static func read(_ path: String, maxBytes: Int = .max) throws(CommandFailure) -> Data {
        do {
            guard path == "-" else { return try contents(of: path, maxBytes: maxBytes) }
            return try contents(of: .standardInput, maxBytes: maxBytes)
        } catch {
            throw CommandFailure(.refused, "\(path) cannot be read (\(error.reason))")
        }
    }

    /// Reads a path only; see ``read(_:maxBytes:)``.
    ///
    /// - Throws: what `reason` has words for.
    static func contents(of path: String, maxBytes: Int = .max) throws -> Data {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(errno) }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        return try contents(of: file, maxBytes: maxBytes)
    }

    private static func contents(of file: FileHandle, maxBytes: Int) throws -> Data {
        try (maxBytes == .max ? file.readToEnd() : file.read(upToCount: maxBytes + 1)) ?? Data()
    }

    private static func failure(_ code: Int32) -> any Error {
        switch code {
        case ENOENT: CocoaError(.fileReadNoSuchFile)
        case EACCES: CocoaError(.fileReadNoPermission)
        default: POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO)
        }
    }
}
