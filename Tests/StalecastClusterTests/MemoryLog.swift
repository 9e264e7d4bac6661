import StalecastCluster
import StalecastRecords
import StalecastWire

/// A shared log as a value: what etcd does with our transactions, without etcd. A copy is a snapshot.
struct MemoryLog {
    private(set) var logMetadata: LogMetadata
    /// Everything ever appended in this history, also what was pruned since.
    private(set) var lineage: [LogEntry] = []
    private var times: [Duration] = []
    private var pruned: Set<CommitSequence> = []
    /// Incarnation of the servers; what was sent to one before it is gone.
    private(set) var generation = 0
    private var lastRevision: Int64 = 1

    /// Comparisons of an append: both, but in a simulation that looks for what happens without.
    struct Comparisons {
        var logMetadata = true
        var head = true
        var ownership = true
    }

    /// The tokens of assignments' present owners.
    var owners: [RecordName: AssignmentLease.Token] = [:]

    init(epoch: Epoch) { logMetadata = LogMetadata(epoch: epoch, revision: 1) }

    var head: LogHead { lineage.last.map { LogHead(of: $0) } ?? .empty }

    func current(_ scope: Scope) -> LogEntry? { lineage.last { $0.change.scope == scope } }

    mutating func append(
        _ entry: LogEntry, under logMetadata: LogMetadata, owner: AssignmentOwner? = nil, at now: Duration,
        _ compared: Comparisons
    ) -> Appended {
        let isOwner = owner.map { owners[$0.assignment] == $0.token } ?? true
        if entry.sequence > head.sequence, !compared.head || entry.previous == head,
            !compared.logMetadata || logMetadata == self.logMetadata, !compared.ownership || isOwner
        {
            // Without the comparison a log can have a hole; a lineage cannot.
            guard entry.sequence == head.sequence + 1 else { return .elsewhere(head) }
            lineage.append(entry)
            times.append(now)
            return .committed
        }
        if entry.sequence <= head.sequence, !pruned.contains(entry.sequence) {
            return .taken(lineage[Int(entry.sequence) - 1])
        }
        guard logMetadata == self.logMetadata else { return .superseded(self.logMetadata) }
        return entry.previous == head && !isOwner ? .deposed : .elsewhere(head)
    }

    func page(after sequence: CommitSequence, limit: Int) -> LogPage {
        let rest = lineage.dropFirst(Int(sequence)).lazy.filter { !pruned.contains($0.sequence) }
        return LogPage(logMetadata: logMetadata, head: head, entries: Array(rest.prefix(limit)))
    }

    func isCurrent(_ head: LogHead, under logMetadata: LogMetadata) -> Bool {
        head == self.head && logMetadata == self.logMetadata
    }

    mutating func amend(_ old: LogMetadata, to new: LogMetadata, at head: LogHead? = nil) -> LogMetadata {
        guard logMetadata == old, head == nil || head == self.head else { return logMetadata }
        lastRevision += 1
        logMetadata = new
        logMetadata.revision = lastRevision
        logMetadata.renewStamp("\(generation) \(lastRevision)")
        return logMetadata
    }

    /// Removes all entries that are older than `age` and not the newest of their scope; the log metadata goes with
    /// them.
    mutating func prune(_ age: Duration, now: Duration) {
        let kept = Set(Set(lineage.map(\.change.scope)).compactMap { current($0)?.sequence })
        let old = zip(lineage, times).filter { now - $0.1 > age }.map(\.0.sequence)
        let victims = old.filter { !kept.contains($0) && !pruned.contains($0) }
        guard let last = victims.last else { return }
        var amended = logMetadata
        amended.prunedBelow = max(logMetadata.prunedBelow, last + 1)
        _ = amend(logMetadata, to: amended)
        pruned.formUnion(victims)
    }

    mutating func prune(_ sequences: [CommitSequence], under old: LogMetadata, to new: LogMetadata) -> Bool {
        guard logMetadata == old else { return false }
        _ = amend(old, to: new)
        pruned.formUnion(sequences)
        return true
    }

    /// Goes back to a snapshot, as new servers.
    ///
    /// - Returns: the publishes that are lost.
    mutating func restore(_ snapshot: MemoryLog) -> Set<PublishID> {
        let lost = Set(lineage.dropFirst(snapshot.lineage.count).map(\.publish))
        let generation = generation
        self = snapshot
        self.generation = generation + 1
        return lost
    }
}
