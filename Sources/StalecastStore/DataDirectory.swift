import Glibc

/// Owner, group and mode of a directory.
package struct DirectoryAccess: Sendable {
    private let owner: UInt32
    private let group: UInt32
    private let mode: UInt32

    package init(owner: UInt32, group: UInt32, mode: UInt32) {
        (self.owner, self.group, self.mode) = (owner, group, mode)
    }

    init(_ status: stat) { self.init(owner: status.st_uid, group: status.st_gid, mode: status.st_mode) }

    /// True for a volume that Kubernetes prepared for the `fsGroup` of this pod: it stays root's, its group is one of
    /// `groups` and may write, and files in it get that group. No other pod has the group, and the files are 0600.
    package func isVolume(of groups: [UInt32]) -> Bool {
        owner == 0 && mode & S_ISGID != 0 && mode & S_IWOTH == 0 && group != 0 && groups.contains(group)
    }
}

/// The data directory and the names in it.
struct DataDirectory: Sendable {
    /// Path without a trailing slash.
    let path: String

    init(_ path: String) {
        var trimmed = path[...]
        while trimmed.count > 1, trimmed.last == "/" { trimmed.removeLast() }
        self.path = String(trimmed)
    }

    var database: String { path + "/stalecast.sqlite" }
    /// SQLite's write-ahead log: committed versions that are not in the database file yet.
    var writeAheadLog: String { database + "-wal" }
    /// SQLite's index of that log; there while the store is open, and after a process that was ended by force.
    var sharedMemory: String { database + "-shm" }
    /// True when the database was in use at a crash and its log is gone since. SQLite makes both files when it opens the
    /// database, so ask before.
    var hasLostLog: Bool { FileOperation.exists(sharedMemory) && !FileOperation.exists(writeAheadLog) }
    var highWaterMark: String { path + "/highwater" }
    /// File with the time when a replica was last known to be at its log's end.
    var verified: String { path + "/verified" }
    /// File with the time of the last backup.
    var lastBackup: String { path + "/last-backup" }
    var lock: String { path + "/lock" }
    /// Path at which a database is made before it gets its name; a file that a crash leaves there is worthless.
    var unfinished: String { database + ".unfinished" }

    /// Databases that restores have replaced at `path`, oldest first; also those of which only the log was left.
    func replaced(_ path: String) throws(FileOperation.Failure) -> [String] {
        let names = try names(beginningWith: String(path.dropFirst(self.path.count + 1)) + ".before-restore-")
        let databases = names.map { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") ? String($0.dropLast(4)) : $0 }
        return Set(databases).sorted().map { self.path + "/" + $0 }
    }

    /// Names of files in it, in no order.
    func names(beginningWith start: String) throws(FileOperation.Failure) -> [String] {
        try FileOperation.names(in: path).filter { $0.hasPrefix(start) }
    }

    /// Makes the directory, readable by its owner only, with its missing parents.
    ///
    /// - Returns: true when the directory was there and others than its owner may enter it.
    func prepare() throws(StoreError) -> Bool {
        do {
            if mkdir(path, 0o700) == 0 {
                try FileOperation.synchronize(FileOperation.parent(of: path))
                return false
            }
            if errno == ENOENT {
                try makeParents()
                // Where the parent exists and still nothing can be made (/proc), the second answer is the last.
                guard mkdir(path, 0o700) == 0 else { throw FileOperation.Failure("mkdir", path) }
                try FileOperation.synchronize(FileOperation.parent(of: path))
                return false
            }
            guard errno == EEXIST else { throw FileOperation.Failure("mkdir", path) }
            try refuseReadOnly()
            return try tighten()
        } catch let error as StoreError {
            throw error
        } catch {
            throw .inaccessible("cannot make the data directory: \(error); choose another with --data")
        }
    }

    /// SQLite reads a write-ahead log only where it can write the index of it, and the lock says that no other daemon has
    /// these files.
    private func refuseReadOnly() throws(StoreError) {
        guard access(path, W_OK) != 0, errno == EROFS else { return }
        throw .inaccessible(
            "\(path) is on a file system that is read-only, and the daemon needs to write there even to serve reads; mount "
                + "it writable (`dmesg` says why the system made it read-only), or copy the directory and start on the copy "
                + "with --data")
    }

    private func makeParents() throws {
        let parent = FileOperation.parent(of: path)
        guard parent != path, parent != "." else { throw FileOperation.Failure("mkdir", path, code: ENOENT) }
        if mkdir(parent, 0o755) == 0 || errno == EEXIST { return }
        guard errno == ENOENT else { throw FileOperation.Failure("mkdir", parent) }
        try DataDirectory(parent).makeParents()
        guard mkdir(parent, 0o755) == 0 || errno == EEXIST else { throw FileOperation.Failure("mkdir", parent) }
    }

    /// A directory of ours becomes 0700. One that is shared by design (sticky, as `/tmp`), belongs to another user, or
    /// holds other things is left as it is: taking it from others could break them.
    private func tighten() throws -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { throw FileOperation.Failure("stat", path) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw FileOperation.Failure("open", path, code: ENOTDIR) }
        guard status.st_mode & 0o077 != 0, !DirectoryAccess(status).isVolume(of: FileOperation.groups) else {
            return false
        }
        let isOurs = status.st_uid == geteuid() && status.st_mode & S_ISVTX == 0
        guard isOurs, try FileOperation.exists(database) || FileOperation.names(in: path).isEmpty else { return true }
        return chmod(path, 0o700) != 0
    }
}
