import Dispatch
import Foundation
package import StalecastStore
package import StalecastWire
import Synchronization

/// Writes the lines of changes whose entries are in the store, and lets the entries go when their lines are durable in
/// the log's file. A synchronisation for each line would double what a publish waits for, so one is made for ``most`` of
/// them, on a queue of its own.
package final class AuditCopies: Sendable {
    /// Entries that the store keeps before the file is synchronised: some 400 kB, read at a start.
    private static let most = 1024
    /// Lines without room that wait in memory, some 100 kB. The entries of further ones wait in the store for the next
    /// start.
    private static let mostWaiting = 256

    private struct Line {
        let action: String
        let members: JSONObject
        let commits: [CommitSequence]
    }

    private struct State {
        /// Commits whose lines are with the kernel.
        var written: [CommitSequence] = []
        /// Lines that could not be written, oldest first.
        var waiting: [Line] = []
        var isSynchronizing = false
    }

    package let audit: AuditLog
    private let store: TemplateStore
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "stalecast.audit", qos: .utility)

    package init(_ audit: AuditLog, _ store: TemplateStore) {
        self.audit = audit
        self.store = store
    }

    /// Entry for a change that is about to be made.
    func entry(_ action: String, _ members: JSONObject) -> AuditEntry {
        var members = members
        members["action"] = .string(action)
        return AuditEntry(members, after: audit.end.count)
    }

    /// Writes the line of a change that was made. A line of a commit that finds no room follows the next one that does.
    func write(_ action: String, _ members: JSONObject, of entry: AuditEntry) {
        let commits = entry.commits
        var members = members
        if let commit = commits.first { members["commit"] = .string(String(commit)) }
        // One lock for the line and its commits: `settle` must not miss one whose line is in the file already.
        let isDue = state.withLock { state in
            if audit.write(action, members) {
                state.written += commits
                writeWaiting(&state)
            } else if !commits.isEmpty, state.waiting.count < Self.mostWaiting {
                state.waiting.append(Line(action: action, members: members, commits: commits))
            }
            guard state.written.count >= Self.most, !state.isSynchronizing else { return false }
            state.isSynchronizing = true
            return true
        }
        if isDue { queue.async { self.synchronize() } }
    }

    private func writeWaiting(_ state: inout State) {
        while let line = state.waiting.first {
            var members = line.members
            members["recovered"] = true
            guard audit.write(line.action, members) else { return }
            state.written += line.commits
            state.waiting.removeFirst()
        }
    }

    /// Makes a change that commits a version; its transaction stores an entry, and the line follows when it is done.
    ///
    /// - Parameter members: members of the line, besides the version.
    package func recording(
        _ action: String, _ members: JSONObject, _ change: () async throws(StoreError) -> StoredVersion
    ) async throws(StoreError) -> StoredVersion {
        let entry = entry(action, members)
        let result: Result<StoredVersion, StoreError> = await AuditEntry.$current.withValue(entry) {
            do throws(StoreError) { return .success(try await change()) } catch { return .failure(error) }
        }
        let version = try result.get()
        var line = members
        line["version"] = .string(String(version.version))
        line["outcome"] = "ok"
        write(action, line, of: entry)
        return version
    }

    /// Removes the entries of all lines that were written, on a queue of its own. Call it when the log goes on in a new
    /// file: the next start looks for lines in the data directory only, and would write those that were moved away again.
    package func settle() {
        queue.async {
            self.synchronize()
            // Entries that stay go with a later publish.
            try? self.store.removeForgottenAuditEntries()
        }
    }

    private func synchronize() {
        let written = state.withLock { state in
            defer { state.written = [] }
            return state.written
        }
        let isDurable = audit.synchronize()
        if isDurable { store.forgetAuditEntries(of: written) }
        state.withLock { state in
            state.isSynchronizing = false
            // Tried again after as many.
            if !isDurable { state.written = written + state.written }
        }
    }
}

extension AuditCopies {
    /// Result of ``completeLog()``.
    package struct Completion: Sendable {
        /// Lines that were missing and are there now.
        package var written = 0
        /// Lines that are missing still.
        package var failed = 0
        /// Error that keeps the entries in the store; nil when they went, or lines are missing still.
        package var problem: StoreError?
    }

    /// Writes the lines that are missing of what the last process committed, and removes the entries once all lines are
    /// durable. Blocks; for the start, before there are other changes.
    package func completeLog() throws(StoreError) -> Completion {
        let entries = try store.auditEntries()
        var done = audit.complete(entries)
        // Their entries are the only copy. The next start finds the lines that were written.
        guard !entries.isEmpty, done.failed == 0, audit.synchronize() else { return done }
        do { try store.removeAuditEntries() } catch { done.problem = error }
        return done
    }
}

extension AuditLog {
    /// Writes the lines of commits of the last process that it did not write.
    ///
    /// - Parameter entries: in the order of their commits.
    fileprivate func complete(_ entries: [AuditEntry.Stored]) -> AuditCopies.Completion {
        var done = AuditCopies.Completion()
        guard let first = entries.map(\.after).min() else { return done }
        let there = commits(after: first)
        for entry in entries where !there.contains(String(entry.sequence)) {
            var line = entry.members
            let action = line["action"]?.string ?? "publishTemplate"
            line["action"] = nil
            line["version"] = .string("\(entry.version)")
            line["commit"] = .string(String(entry.sequence))
            line["outcome"] = "ok"
            line["recovered"] = true
            if write(action, line) { done.written += 1 } else { done.failed += 1 }
        }
        return done
    }

    /// Commits that lines with higher numbers name, read from the end of the log.
    private func commits(after number: Int64) -> Set<String> {
        var found: Set<String> = []
        for name in AuditFiles.all(in: directory).reversed() {
            var (count, isWhole, begin) = (1 << 20, false, Int64.max)
            while !isWhole, begin > number {
                let tail = AuditFiles.tail(of: "\(directory)/\(name)", count)
                isWhole = tail.count < count
                count *= 2
                // The first may be the end of a line.
                for line in tail.split(separator: 0x0A).dropFirst(isWhole ? 0 : 1) {
                    guard let json = JSONValue.ifValid(line), let own = json["seq"]?.int64 else { continue }
                    begin = min(begin, own)
                    if own > number, let commit = json["commit"]?.string { found.insert(commit) }
                }
            }
            if begin <= number { break }
        }
        return found
    }
}
