import Dispatch
import Glibc
import Synchronization

/// A backup that a client reads over the network. Its file has no name any more, so nothing stays on disk, even when
/// the client or the process ends early.
package final class BackupDownload: Sendable {
    /// Size in bytes.
    package let size: Int
    private let file: Int32
    private let ended: @Sendable () -> Void
    private let isOver = Atomic(false)

    private static let pieceSize = 256 << 10

    /// Takes the file's name away; nil where it cannot be read.
    fileprivate init?(taking path: String, ended: @escaping @Sendable () -> Void) {
        file = open(path, O_RDONLY | O_CLOEXEC)
        unlink(path)
        size = file < 0 ? -1 : lseek(file, 0, SEEK_END)
        self.ended = ended
        if size < 0 { return nil }
    }

    deinit {
        close(file)
        end()
    }

    /// Notes that the backup has been read, so that another one may be made.
    package func end() {
        if !isOver.exchange(true, ordering: .relaxed) { ended() }
    }

    /// The bytes from `offset` on, at most 256 KiB; none where they cannot be read.
    package func piece(at offset: Int) -> [UInt8] {
        let wanted = max(0, min(Self.pieceSize, size - offset))
        return [UInt8](unsafeUninitializedCapacity: wanted) { room, count in
            count = max(0, pread(file, room.baseAddress, wanted, offset))
        }
    }
}

extension TemplateStore {
    /// Makes a backup to be read once. One at a time, until it has been read: a slow reader must not fill the disk.
    ///
    /// - Throws: ``StoreError/alreadyExists(_:)`` while there is another one, ``StoreError/diskFull(_:)``,
    ///   ``StoreError/inaccessible(_:)``.
    package func download() async throws(StoreError) -> BackupDownload {
        guard state.withLock({ $0.beginDownload() }) else {
            throw .alreadyExists("another backup is being made or read; try again when it is done")
        }
        let made: Result<BackupDownload, StoreError> = await withCheckedContinuation { made in
            // Copying blocks for as long as the disk takes.
            DispatchQueue.global(qos: .utility).async { made.resume(returning: self.makeDownload()) }
        }
        if case .failure = made { state.withLock { $0.endDownload() } }
        return try made.get()
    }

    private func makeDownload() -> Result<BackupDownload, StoreError> {
        let path = directory.sentBackup
        do throws(StoreError) {
            try requireRoomForDownload()
            do { try directory.removeSentBackups() } catch {
                throw .inaccessible("what is left of a former backup cannot be removed: \(error)")
            }
            try backup(to: path)
            let ended = { @Sendable [self] in state.withLock { $0.endDownload() } }
            guard let download = BackupDownload(taking: path, ended: ended) else {
                throw .inaccessible("the backup \(path) cannot be read")
            }
            return .success(download)
        } catch {
            return .failure(error)
        }
    }

    /// The copy, and those of the parts before they are in it, must leave what publishes need.
    private func requireRoomForDownload() throws(StoreError) {
        let sources = [directory.database, directory.writeAheadLog] + BackupFile.sources(in: directory)
        let needed = 2 * sources.reduce(0) { $0 + (FileOperation.size($1) ?? 0) } + configuration.minFreeBytes
        guard let free = FileOperation.freeBytes(at: directory.path), free < needed else { return }
        throw .diskFull(
            "a backup is made beside the store and needs \(StoreHealth.size(needed)) free there, of which "
                + "\(StoreHealth.size(free)) are; free some, or copy it on the machine with `stalecast backup FILE`")
    }
}

extension DataDirectory {
    /// A backup that is made to be sent.
    var sentBackup: String { path + "/sent.backup" }

    /// Removes the copies that a process has left that was ended by force.
    fileprivate func removeSentBackups() throws(FileOperation.Failure) {
        let start = String(sentBackup.dropFirst(path.count + 1))
        for name in try names(beginningWith: start) { try FileOperation.remove(path + "/" + name) }
    }
}
