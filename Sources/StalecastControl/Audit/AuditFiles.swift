import Foundation

/// The files of an audit log: `audit.jsonl`, which is written, and before it `audit-<number of its last line>.jsonl`,
/// which are full.
package enum AuditFiles {
    package static let current = "audit.jsonl"
    private static let (prefix, suffix) = ("audit-", ".jsonl")

    /// The name of one whose last line has this number.
    static func former(endingAt number: Int64) -> String {
        let digits = String(number)
        return prefix + String(repeating: "0", count: max(0, 16 - digits.utf8.count)) + digits + suffix
    }

    /// Files that are full, oldest first.
    package static func former(in directory: String) -> [String] {
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            let digits = name.utf8.dropFirst(prefix.utf8.count).dropLast(suffix.utf8.count)
            guard name.hasPrefix(prefix), name.hasSuffix(suffix), digits.count == 16,
                digits.allSatisfy({ (0x30...0x39).contains($0) })
            else { continue }
            names.append(name)
        }
        return names.sorted()
    }

    /// All files of the log, oldest first.
    package static func all(in directory: String) -> [String] {
        former(in: directory) + (access("\(directory)/\(current)", F_OK) == 0 ? [current] : [])
    }

    /// The last bytes of a file, at most `count`; none of one that cannot be read.
    static func tail(of path: String, _ count: Int) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { close(file) }
        return tail(of: file, count)
    }

    static func tail(of file: Int32, _ count: Int) -> [UInt8] {
        let size = max(0, Int(lseek(file, 0, SEEK_END)))
        let length = min(size, count)
        return [UInt8](unsafeUninitializedCapacity: length) { buffer, used in
            used = max(0, pread(file, buffer.baseAddress, length, off_t(size - length)))
        }
    }

    /// Identity that stays when a file is renamed; nil when there is none.
    package static func identity(_ path: String) -> FileIdentity? {
        var status = stat()
        return stat(path, &status) == 0 ? FileIdentity(status) : nil
    }

    package static func identity(_ file: Int32) -> FileIdentity? {
        var status = stat()
        return fstat(file, &status) == 0 ? FileIdentity(status) : nil
    }
}

/// A file whatever its name.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64

    fileprivate init(_ status: stat) {
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(truncatingIfNeeded: status.st_ino)
    }
}
