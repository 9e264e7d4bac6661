import Foundation
import Glibc
import StalecastWire

/// The few file operations the store needs besides SQLite's, with errors thrown.
///
/// None may open and close a database file that this process has open through SQLite: closing any descriptor of a file
/// drops all POSIX locks the process holds on it.
package enum FileOperation {
    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Device and inode of a file.
    struct Identity: Hashable, Sendable {
        let device: UInt64
        let inode: UInt64
    }

    /// - Returns: nil when there is no such file.
    /// - Throws: when it cannot be looked at.
    static func identity(_ path: String) throws(Failure) -> Identity? {
        var status = stat()
        if stat(path, &status) == 0 { return Identity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)) }
        guard errno == ENOENT else { throw Failure("stat", path) }
        return nil
    }

    /// nil when there is no such file.
    static func size(_ path: String) -> Int64? {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : nil
    }

    /// Makes the file's content, or the directory's entries, survive power loss.
    static func synchronize(_ path: String) throws(Failure) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw Failure("open", path) }
        defer { close(file) }
        guard fsync(file) == 0 else { throw Failure("fsync", path) }
    }

    /// Replaces `destination` atomically.
    static func move(_ source: String, to destination: String) throws(Failure) {
        guard rename(source, destination) == 0 else { throw Failure("rename", source) }
    }

    /// Gives the file another name without ever replacing one; fails with `EEXIST` when that is taken. On a file system
    /// without hard links the file is moved, and loses its old name.
    static func giveName(_ name: String, to path: String) throws(Failure) {
        if link(path, name) == 0 { return }
        guard [EPERM, ENOTSUP, ENOSYS].contains(errno) else { throw Failure("link", name) }
        guard !exists(name) else { throw Failure("rename", name, code: EEXIST) }
        try move(path, to: name)
    }

    /// A file that is not there is as good as removed.
    static func remove(_ path: String) throws(Failure) {
        guard unlink(path) == 0 || errno == ENOENT else { throw Failure("unlink", path) }
    }

    /// Makes an empty file of mode 0600; fails with `EEXIST` when there is one.
    static func createEmpty(_ path: String) throws(Failure) {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failure("create", path) }
        close(file)
    }

    /// Gives files that root made to the owner of their directory, who has to open them; does nothing for other users. A
    /// link is left alone, and so is a file with a second name: another directory's file must not change its owner.
    static func giveToOwner(of directory: String, _ paths: [String]) throws(Failure) {
        guard geteuid() == 0 else { return }
        var owner = stat()
        guard stat(directory, &owner) == 0 else { throw Failure("stat", directory) }
        for path in paths {
            // A descriptor, so that the file that is judged is the one given away. O_NONBLOCK does not wait at a FIFO.
            let file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
            guard file >= 0 else {
                if errno == ENOENT || errno == ELOOP { continue }
                throw Failure("open", path)
            }
            defer { close(file) }
            var facts = stat()
            guard fstat(file, &facts) == 0, facts.st_nlink == 1, facts.st_uid == 0 else { continue }
            guard fchown(file, owner.st_uid, owner.st_gid) == 0 else { throw Failure("chown", path) }
        }
    }

    /// The first `count` bytes, fewer when the file is shorter.
    static func head(_ path: String, count: Int) throws(Failure) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw Failure("open", path) }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: count)
        let got = bytes.withUnsafeMutableBytes { pread(file, $0.baseAddress, count, 0) }
        guard got >= 0 else { throw Failure("read", path) }
        return Array(bytes.prefix(got))
    }

    /// Writes into a file of this owner's, from its beginning; a file that cannot be written stays as it is.
    static func overwrite(_ path: String, with bytes: [UInt8]) {
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return }
        defer { close(file) }
        _ = pwrite(file, bytes, bytes.count, 0)
    }

    /// Bytes an unprivileged process may still write to the file system of `path`; nil when that cannot be told.
    static func freeBytes(at path: String) -> Int64? {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? .max : Int64(clamping: bytes)
    }

    /// Names of what is in a directory, in no order.
    package static func names(in directory: String) throws(Failure) -> [String] {
        guard let listing = opendir(directory) else { throw Failure("open", directory) }
        defer { closedir(listing) }
        var names: [String] = []
        while let entry = readdir(listing) {
            // In place: an entry ends with its name, and a copy of the whole type would read beyond it.
            let name = withUnsafePointer(to: &entry.pointee.d_name.0) { String(cString: $0) }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// This process's groups.
    static var groups: [UInt32] {
        var ids = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(ids.count), &ids)
        return [getegid()] + ids.prefix(max(0, Int(count)))
    }

    /// The directory part of a path, `.` when there is none.
    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// A failed system call: what was tried, on what, and `errno`.
    package struct Failure: Error, CustomStringConvertible {
        let call: String
        let path: String
        package let code: Int32

        init(_ call: String, _ path: String, code: Int32 = errno) {
            (self.call, self.path, self.code) = (call, path, code)
        }

        var isNoSpace: Bool { code == ENOSPC || code == EDQUOT }
        var isTaken: Bool { code == EEXIST }

        package var description: String { "\(call) \(path): \(String(cString: strerror(code)))" }
    }
}
