import Foundation
import StalecastWire

/// Files that only their owner may read, each replaced as a whole.
package enum WholeFile {
    /// Replaces a file; one that cannot be written leaves the former.
    ///
    /// - Parameters:
    ///   - next: path of the new file until it is complete.
    ///   - prepare: sets the new file's owner and mode; false gives up, with `errno`.
    /// - Returns: 0, or why it was not written, as `errno` says it.
    package static func replace(
        _ path: String, with bytes: [UInt8], through next: String, prepare: (Int32) -> Bool = { _ in true }
    ) -> Int32 {
        // Left behind by a process that ended in between.
        unlink(next)
        let file = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { return errno }
        let written = bytes.withUnsafeBytes { DescriptorBytes.write($0, to: file) }
        let isWritten = written == bytes.count && prepare(file)
        let code = errno
        close(file)
        if isWritten, rename(next, path) == 0 { return 0 }
        defer { unlink(next) }
        return isWritten ? errno : code
    }
}
