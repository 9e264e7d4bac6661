import Dispatch
package import StalecastStore
import StalecastWire
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Lets the entries in the store go when their lines are durable in the log's file. A synchronisation for each line
/// would double what a publish waits for, so one is made for ``most`` of them, on a queue of its own.
final class AuditCopies: Sendable {
    /// Entries that the store keeps before the file is synchronised: some 400 kB, read at a start.
    private static let most = 1024

    private struct State {
        var written: [CommitSequence] = []
        var isSynchronizing = false
    }

    private let audit: AuditLog
    private let store: TemplateStore
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "stalecast.audit", qos: .utility)

    init(_ audit: AuditLog, _ store: TemplateStore) {
        self.audit = audit
        self.store = store
    }

    /// The lines of these commits are with the kernel.
    func written(_ commits: [CommitSequence]) {
        let isDue = state.withLock { state in
            state.written += commits
            guard state.written.count >= Self.most, !state.isSynchronizing else { return false }
            state.isSynchronizing = true
            return true
        }
        if isDue { queue.async { self.synchronize() } }
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

extension AuditLog {
    /// Writes the lines that are missing of what the last process committed.
    ///
    /// - Parameter entries: in the order of their commits.
    /// - Returns: how many were missing.
    package func complete(_ entries: [AuditEntry.Stored]) -> Int {
        guard let first = entries.map(\.after).min() else { return 0 }
        let there = commits(after: first)
        var missing = 0
        for entry in entries where !there.contains(String(entry.sequence)) {
            var line = entry.members
            let action = line["action"]?.string ?? "publishTemplate"
            line["action"] = nil
            line["version"] = .string("\(entry.version)")
            line["commit"] = .string(String(entry.sequence))
            line["outcome"] = "ok"
            line["recovered"] = true
            if write(action, line) { missing += 1 }
        }
        return missing
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
                    guard let json = try? JSONValue.parse(line), let own = json["seq"]?.int64 else { continue }
                    begin = min(begin, own)
                    if own > number, let commit = json["commit"]?.string { found.insert(commit) }
                }
            }
            if begin <= number { break }
        }
        return found
    }
}

extension AuditFiles {
    /// The last bytes of a file, at most `count`; none of one that cannot be read.
    fileprivate static func tail(of path: String, _ count: Int) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { close(file) }
        let start = max(0, lseek(file, 0, SEEK_END) - off_t(count))
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
            used = max(0, pread(file, buffer.baseAddress, count, start))
        }
    }
}
