import Foundation
import StalecastWire

/// A folder of backups that are named after their time, of which only so many stay.
struct BackupFolder {
    let path: String
    /// Backups that stay; nil keeps all.
    let keep: Int?

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
        return "\(path)/stalecast-\(second)Z.backup"
    }

    /// Removes the oldest backups beyond ``keep``. Call it after a new one was read through: however many attempts fail, the
    /// last good ones stay.
    ///
    /// - Returns: the names that were removed.
    func removeOld() -> [String] {
        guard let keep else { return [] }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []  // missing: no backups
        // Other files in the folder are left alone.
        let ours = names.filter { $0.wholeMatch(of: /stalecast-[0-9]{8}T[0-9]{6}Z\.backup/) != nil }
        let old = ours.sorted().dropLast(keep)
        return old.filter { unlink("\(path)/\($0)") == 0 }
    }
}
