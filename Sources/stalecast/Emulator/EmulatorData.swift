import Foundation

/// A temporary directory that exists as long as the emulator. A lock marks it as in use: the kernel gives the lock up
/// when the process ends, however it ends, so that the next emulator finds and removes what a killed one left.
package struct EmulatorData: Sendable {
    /// Control's token. Fixed, so that tests can have it in their source.
    static let token = "stalecast-emulator"
    private static let prefix = "stalecast-emulator-"

    package let path: String
    private let lock: Int32

    /// - Parameter place: the directory for temporary files.
    /// - Throws: ``CommandFailure`` when nothing can be written there.
    package init(in place: String) throws(CommandFailure) {
        Self.sweep(place)
        let (path, lock) = try Self.make(in: place)
        (self.path, self.lock) = (path, lock)
        let file = open("\(path)/control.token", O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        defer { close(file) }
        guard file >= 0, write(file, Self.token, Self.token.utf8.count) == Self.token.utf8.count else {
            throw Self.unwritable(path)
        }
    }

    /// Removes the directory. If it cannot be removed, the system cleans its place for temporary files anyway.
    package func remove() {
        try? FileManager.default.removeItem(atPath: path)
        close(lock)
    }

    private static func make(in place: String) throws(CommandFailure) -> (path: String, lock: Int32) {
        for _ in 0..<10 {
            var template = Array("\(place)/\(prefix)XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw unwritable(place) }
            let path = String(decoding: template.dropLast().map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
            // Another emulator that starts now may take the directory for a dead one's until it is locked.
            guard let lock = locked(path, LOCK_EX) else { continue }
            if access(path, F_OK) == 0 { return (path, lock) }
            close(lock)
        }
        throw unwritable(place)
    }

    /// Removes the directories of emulators that were killed.
    private static func sweep(_ place: String) {
        // A directory that cannot be listed is reported when something is made there.
        for name in (try? FileManager.default.contentsOfDirectory(atPath: place)) ?? [] where name.hasPrefix(prefix) {
            let path = "\(place)/\(name)"
            guard let lock = locked(path, LOCK_EX | LOCK_NB) else { continue }
            try? FileManager.default.removeItem(atPath: path)  // the next emulator tries again
            close(lock)
        }
    }

    /// nil for what is not our own directory, and while another process has the lock.
    private static func locked(_ path: String, _ operation: Int32) -> Int32? {
        let directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        var facts = stat()
        guard directory >= 0 else { return nil }
        if fstat(directory, &facts) == 0, facts.st_uid == geteuid(), flock(directory, operation) == 0 {
            return directory
        }
        close(directory)
        return nil
    }

    private static func unwritable(_ path: String) -> CommandFailure {
        CommandFailure(
            .refused, "no temporary directory can be made in \(path): \(String(cString: strerror(errno)))",
            advice: "TMPDIR names another place.")
    }
}
