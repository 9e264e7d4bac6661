import GRDB
package import StalecastWire

extension TemplateStore {
    /// Copies the store to `path`; see ``backup(directory:to:)``. Blocks for as long as the copy takes, while publishes
    /// and reads go on.
    package func backup(to path: String) throws(StoreError) {
        try Self.backup(directory: configuration.directory, to: path)
    }

    /// Copies the store of a data directory, in use or not, to a new file: one consistent state, complete in itself,
    /// synchronised, and given its name last.
    ///
    /// - Throws: ``StoreError/alreadyExists(_:)``, ``StoreError/notAStore(_:)``, ``StoreError/diskFull(_:)``,
    ///   ``StoreError/inaccessible(_:)``; nothing is left at `path` then.
    package static func backup(directory: String, to path: String) throws(StoreError) {
        let source = DataDirectory(directory).database
        guard FileOperation.exists(source) else {
            throw .inaccessible("there is no store in \(directory); give its data directory with --data")
        }
        guard !FileOperation.exists(path) else { throw taken(path) }
        let folder = FileOperation.parent(of: path)
        guard FileOperation.exists(folder) else {
            throw .inaccessible("there is no directory \(folder) for \(path); make it first")
        }
        let unfinished = "\(path).unfinished-\(Epoch.random())"
        do {
            defer { discard(unfinished) }
            try FileOperation.createEmpty(unfinished)
            // The webhooks' state first: a cursor must not be ahead of what was committed.
            let parts = try BackupFile.copies(of: DataDirectory(directory), beside: unfinished)
            try DatabaseInspection.verify(source, upTo: 0)
            try DatabaseInspection.copy(source, to: unfinished)
            try BackupFile.attach(parts, to: unfinished, madeAt: .now())
            try FileOperation.synchronize(unfinished)
            try FileOperation.giveName(path, to: unfinished)
            try FileOperation.synchronize(FileOperation.parent(of: path))
        } catch {
            throw copyingError(error, path)
        }
        noteBackup(DataDirectory(directory))
    }

    /// Time of the last backup that was made of this data directory; nil when none was.
    package var lastBackup: Timestamp? {
        // A file that cannot be read has nothing to tell.
        guard let bytes = try? FileOperation.head(directory.lastBackup, count: 64) else { return nil }
        return Timestamp(String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self))
    }

    /// The backup is there: a directory that cannot be written, on a full disk perhaps, does not spoil it.
    private static func noteBackup(_ directory: DataDirectory) {
        FileOperation.overwrite(directory.lastBackup, with: Array("\(Timestamp.now())\n".utf8))
        try? FileOperation.giveToOwner(of: directory.path, [directory.lastBackup])  // for the same reason
    }

    /// Removes the files that a failed or finished copy leaves under its temporary name; they are of no use.
    private static func discard(_ unfinished: String) {
        for name in [unfinished] + BackupFile.copyNames(beside: unfinished) {
            for suffix in ["", "-journal"] {
                do { try FileOperation.remove(name + suffix) } catch { continue }
            }
        }
    }

    static func taken(_ path: String) -> StoreError {
        .alreadyExists("\(path) is already there; it was not changed; choose another name")
    }

    private static func copyingError(_ error: any Error, _ path: String) -> StoreError {
        switch error {
        case let error as StoreError: error
        case let error as FileOperation.Failure where error.isTaken: taken(path)
        case let error as DatabaseError where error.isNoSpace:
            .diskFull("no space for the backup \(path); nothing was left there")
        case let error as FileOperation.Failure where error.isNoSpace:
            .diskFull("no space for the backup \(path); nothing was left there")
        default: .inaccessible("the backup \(path) could not be made: \(error)")
        }
    }
}
