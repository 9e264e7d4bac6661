import Foundation
import StalecastStore

/// A backup that a daemon makes and sends. The file gets its name when all of it is there and was read through.
struct BackupTransfer {
    let client: ControlClient
    let file: String

    /// Time without a byte after which it is given up: the daemon copies its store first.
    private static let patience: Duration = .seconds(600)

    /// - Throws: ``CommandFailure``; nothing is left at the file's place then.
    func run() async throws(CommandFailure) -> BackupSummary {
        guard !FileManager.default.fileExists(atPath: file) else {
            throw CommandFailure(
                .refused, "no backup made: \(file) is already there; it was not changed; choose another name")
        }
        let draft = "\(file).unfinished-\(getpid())"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("\(draft) cannot be written") }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        defer { unlink(draft) }
        try await receive(into: handle)
        do { try handle.synchronize() } catch { throw failure("\(draft) cannot be written") }
        let summary: BackupSummary
        do { summary = try TemplateStore.verifyBackup(draft) } catch {
            throw CommandFailure(.refused, "no backup made: what \(client.address.url) sent is not sound: \(error)")
        }
        // Unlike a renaming, it replaces no file that came meanwhile.
        guard link(draft, file) == 0 else { throw failure("\(file) cannot be made") }
        return summary
    }

    private func failure(_ what: String) -> CommandFailure {
        CommandFailure(.refused, "no backup made: \(what) (\(String(cString: strerror(errno))))")
    }

    private func receive(into handle: FileHandle) async throws(CommandFailure) {
        do {
            try await client.stream("POST", "/v1/backup", patience: Self.patience) { bytes in
                do { try handle.write(contentsOf: Data(bytes)) } catch { throw failure("\(file) cannot be written") }
                return true
            }
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw CommandFailure(noAnswerFrom: client.address, error)
        }
    }
}
