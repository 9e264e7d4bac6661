import StalecastCluster
import StalecastWire

/// A shared log as a value: what etcd does with our transactions, without etcd. A copy is a snapshot.
struct MemoryLog {
    private(set) var charter: Charter
    /// Everything ever appended in this history, also what was pruned since.
    private(set) var lineage: [LogEntry] = []
    private var times: [Duration] = []
    private var pruned: Set<CommitSequence> = []
    /// Which incarnation of the servers this is; what was sent to one before it is gone.
    private(set) var generation = 0
    private var lastRevision: Int64 = 1

    /// What an append compares. Both, but in a simulation that looks for what happens without.
    struct Comparisons {
        var charter = true
        var head = true
        var ownership = true
    }

    /// The tokens of duties' present owners.
    var owners: [RecordName: DutyLease.Token] = [:]

    init(epoch: Epoch) { charter = Charter(epoch: epoch, revision: 1) }

    var head: LogHead { lineage.last.map { LogHead(of: $0) } ?? .empty }

    func current(_ scope: Scope) -> LogEntry? { lineage.last { $0.change.scope == scope } }

    mutating func append(
        _ entry: LogEntry, under charter: Charter, owner: DutyOwner? = nil, at now: Duration,
        _ compared: Comparisons
    ) -> Appended {
        let isOwner = owner.map { owners[$0.duty] == $0.token } ?? true
        if entry.sequence > head.sequence, !compared.head || entry.previous == head,
            !compared.charter || charter == self.charter, !compared.ownership || isOwner
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
        guard charter == self.charter else { return .superseded(self.charter) }
        return entry.previous == head && !isOwner ? .deposed : .elsewhere(head)
    }

    func page(after sequence: CommitSequence, limit: Int) -> LogPage {
        let rest = lineage.dropFirst(Int(sequence)).lazy.filter { !pruned.contains($0.sequence) }
        return LogPage(charter: charter, head: head, entries: Array(rest.prefix(limit)))
    }

    func isCurrent(_ head: LogHead, under charter: Charter) -> Bool { head == self.head && charter == self.charter }

    mutating func amend(_ old: Charter, to new: Charter, at head: LogHead? = nil) -> Charter {
        guard charter == old, head == nil || head == self.head else { return charter }
        lastRevision += 1
        charter = new
        charter.revision = lastRevision
        charter.stamp = "\(generation) \(lastRevision)"
        return charter
    }

    /// Removes all entries that are older than `age` and not the newest of their scope; the charter goes with them.
    mutating func prune(_ age: Duration, now: Duration) {
        let kept = Set(Set(lineage.map(\.change.scope)).compactMap { current($0)?.sequence })
        let old = zip(lineage, times).filter { now - $0.1 > age }.map(\.0.sequence)
        let victims = old.filter { !kept.contains($0) && !pruned.contains($0) }
        guard let last = victims.last else { return }
        var amended = charter
        amended.prunedBelow = max(charter.prunedBelow, last + 1)
        _ = amend(charter, to: amended)
        pruned.formUnion(victims)
    }

    mutating func prune(_ sequences: [CommitSequence], under old: Charter, to new: Charter) -> Bool {
        guard charter == old else { return false }
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
