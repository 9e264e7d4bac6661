import Foundation
import StalecastWire

/// A folder of backups that are named after their time, of which only so many stay.
struct BackupFolder {
    let path: String
    /// Backups that stay; nil keeps all.
    let keep: Int?

    private static let (prefix, suffix) = ("stalecast-", ".backup")

    /// nil when there is no such folder.
    init?(_ path: String, keep: Int?) {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue else {
            return nil
        }
        self.path = path.hasSuffix("/") ? String(path.dropLast()) : path
        self.keep = keep
    }

    /// `stalecast-20261120T130000Z.backup`, which sorts by time.
    func file(at time: Timestamp) -> String {
        let second = time.description.prefix(19).filter { $0 != "-" && $0 != ":" }
        return "\(path)/\(Self.prefix)\(second)Z\(Self.suffix)"
    }

    /// Removes the oldest backups beyond ``keep``. Call it after a new one was read through: however many attempts fail, the
    /// last good ones stay.
    ///
    /// - Returns: the names that were removed.
    func removeOld() -> [String] {
        guard let keep else { return [] }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []  // missing: no backups
        let old = names.filter(Self.isOurs).sorted().dropLast(keep)
        return old.filter { unlink("\(path)/\($0)") == 0 }
    }

    /// Whether the name is one that this command gives; other files in the folder are left alone.
    private static func isOurs(_ name: String) -> Bool {
        guard name.hasPrefix(prefix), name.hasSuffix(suffix) else { return false }
        let time = Array(name.utf8.dropFirst(prefix.utf8.count).dropLast(suffix.utf8.count))
        return time.count == 16 && time[8] == UInt8(ascii: "T") && time[15] == UInt8(ascii: "Z")
            && (time[..<8] + time[9..<15]).allSatisfy { (0x30...0x39).contains($0) }
    }
}
