import Foundation

/// A value kept in a ``SealedFile``: read once, written behind by a queue of its own. Saves that follow each other
/// faster than the disk are coalesced; only the newest is written.
final class RecordFile<Record: Codable & Sendable>: Sendable {
    private struct Pending: Sendable {
        var record: Record?
        var isScheduled = false
        /// Resumed once nothing is pending any more.
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let file: SealedFile
    private let pending = Locked(Pending())
    private let onProblem: @Sendable (StalecastProblem) -> Void

    init(url: URL, onProblem: @escaping @Sendable (StalecastProblem) -> Void) {
        file = SealedFile(url: url)
        self.onProblem = onProblem
    }

    /// The record; nil when there is none or it is damaged, which is reported.
    func load() -> Record? {
        file.removeLeftovers()
        do {
            return try file.read().map { try JSONDecoder().decode(Record.self, from: $0) }
        } catch {
            onProblem(.cacheDamaged(file: file.url.path, reason: "\(error)"))
            return nil
        }
    }

    /// Has the record written soon; does not block. May be called under a lock, so that saves keep their order.
    func save(_ record: Record) {
        let schedule = pending.withLock { pending in
            pending.record = record
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        if schedule { cacheQueue.async { self.drain() } }
    }

    /// Returns once everything saved before is on disk, or was reported not to be.
    func flush() async {
        await withCheckedContinuation { continuation in
            let isIdle = pending.withLock { pending in
                if pending.isScheduled { pending.waiting.append(continuation) }
                return !pending.isScheduled
            }
            if isIdle { continuation.resume() }
        }
    }

    private func drain() {
        while let record = takePending() {
            do {
                try file.write(try JSONEncoder().encode(record))
            } catch {
                onProblem(.cacheNotWritten(file: file.url.path, reason: "\(error)"))
            }
        }
    }

    /// The next record to write; nil when there is none, and then waiting callers are resumed.
    private func takePending() -> Record? {
        let (record, finished) = pending.withLock { pending in
            if let record = pending.record {
                pending.record = nil
                return (record as Record?, [CheckedContinuation<Void, Never>]())
            }
            defer { pending.waiting = [] }
            // Clears the mark under the lock that found nothing, so that a save from here on schedules a new pass.
            pending.isScheduled = false
            return (nil, pending.waiting)
        }
        for continuation in finished { continuation.resume() }
        return record
    }
}

/// All caches of the process are written here, one at a time: neither a caller nor the cooperative pool waits for a
/// disk.
private let cacheQueue = DispatchQueue(label: "stalecast.cache", qos: .utility)
