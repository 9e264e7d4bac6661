import StalecastCluster
import StalecastRecords
import StalecastWire

/// Record of what each node and reader saw, and of what cannot be.
final class History {
    private struct Attempt {
        let scope: Scope
        let ifMatch: VersionNumber?
        let mustSucceed: Bool
        let began: Duration
        /// The log's version of the scope then.
        let atBegin: VersionNumber
        var answer: Proposer.Answer?
        var resolution: Bool??
    }

    private struct Place: Hashable {
        let epoch: Epoch
        let sequence: CommitSequence
    }

    private(set) var violations: [String] = []
    private(set) var acknowledged = 0
    private(set) var unknown = 0
    private var order: [PublishID] = []
    private var attempts: [PublishID: Attempt] = [:]
    private var commits: [(at: Duration, scope: Scope)] = []
    private var places: [Place: PublishID] = [:]
    private var lost: Set<PublishID> = []
    /// The highest there ever was: what was pruned before a restore stays away from those who had not read it.
    private var prunedBelow: CommitSequence = 1
    private var epochs: Set<Epoch> = []
    /// Epochs that have two histories until a restore is noticed; no node can help that.
    private var restoredEpochs: Set<Epoch> = []
    private var restores: [Duration] = []

    func blame(_ sentence: String, _ epoch: Epoch? = nil) {
        if let epoch, restoredEpochs.contains(epoch) { return }
        violations.append(sentence)
    }

    func began(_ id: PublishID, _ scope: Scope, _ ifMatch: VersionNumber?, _ world: World, mustSucceed: Bool) {
        order.append(id)
        attempts[id] = Attempt(
            scope: scope, ifMatch: ifMatch, mustSucceed: mustSucceed, began: world.now,
            atBegin: world.log.current(scope)?.change.version ?? 0)
    }

    func committed(_ entry: LogEntry, at now: Duration) { commits.append((now, entry.change.scope)) }

    func holds(_ logMetadata: LogMetadata) {
        epochs.insert(logMetadata.epoch)
        prunedBelow = max(prunedBelow, logMetadata.prunedBelow)
    }

    func restored(lost: Set<PublishID>, at now: Duration) {
        self.lost.formUnion(lost)
        restoredEpochs.formUnion(epochs)
        restores.append(now)
    }

    /// A node shows an entry.
    func shown(_ entry: LogEntry, _ epoch: Epoch) {
        let place = Place(epoch: epoch, sequence: entry.sequence)
        if let other = places.updateValue(entry.publish, forKey: place), other != entry.publish {
            blame("two contents at \(entry.sequence) of one epoch", epoch)
        }
    }

    func hungUp(_ id: PublishID) { if attempts[id]?.answer == nil { attempts[id]?.answer = .unknown } }

    func answered(_ id: PublishID, _ answer: Proposer.Answer, at now: Duration) {
        guard let attempt = attempts[id], attempt.answer == nil else { return blame("two answers to one publish") }
        attempts[id]?.answer = answer
        if case .committed = answer { acknowledged += 1 }
        if answer == .unknown { unknown += 1 }
        guard answer == .refused, attempt.ifMatch == attempt.atBegin else { return }
        // It matched when it came: something must have come between.
        let isBetween = { (time: Duration) in time >= attempt.began && time <= now }
        if !commits.contains(where: { isBetween($0.at) && $0.scope == attempt.scope }),
            !restores.contains(where: isBetween)
        {
            blame("If-Match \(attempt.ifMatch ?? 0) refused while it held")
        }
    }

    func resolved(_ id: PublishID, _ isCommitted: Bool?) { attempts[id]?.resolution = .some(isCommitted) }

    // MARK: The end

    func judge(_ world: World) {
        judgeOutcomes(world.log.lineage)
        judgeOrder(world.log.lineage)
        for node in world.nodes { judge(node, world.log) }
    }

    private func judgeOutcomes(_ lineage: [LogEntry]) {
        let there = Set(lineage.map(\.publish))
        if there.count < lineage.count { blame("a publish is in the log twice") }
        for id in order {
            guard let attempt = attempts[id] else { continue }
            switch attempt.answer {
            case .committed: if !there.contains(id), !lost.contains(id) { blame("acknowledged, and not there") }
            case .refused, .notCommitted: if there.contains(id) { blame("denied, and there") }
            case .unknown:
                if attempt.resolution == .some(true), !there.contains(id), !lost.contains(id) {
                    blame("said to be there later, and not there")
                }
                if attempt.resolution == .some(false), there.contains(id) { blame("denied later, and there") }
            case nil: blame("a publish without an answer")
            }
            if attempt.mustSucceed, attempt.answer.map({ if case .committed = $0 { true } else { false } }) != true {
                blame("no publish after all was well: \(attempt.answer.map { "\($0)" } ?? "no answer")")
            }
        }
    }

    private func judgeOrder(_ lineage: [LogEntry]) {
        var versions: [Scope: VersionNumber] = [:]
        for entry in lineage {
            let before = versions[entry.change.scope] ?? 0
            if entry.change.version != before + 1 {
                blame("version \(entry.change.version) after \(before) in the log")
            }
            if let ifMatch = attempts[entry.publish]?.ifMatch, ifMatch != before {
                blame("If-Match \(ifMatch) committed on \(before)")
            }
            versions[entry.change.scope] = entry.change.version
        }
    }

    private func judge(_ node: Node, _ log: MemoryLog) {
        guard node.epoch == log.logMetadata.epoch, node.head == log.head else {
            return blame("\(node.name) ends at \(node.head), the log at \(log.head)")
        }
        var last: CommitSequence = 0
        for entry in node.replica {
            if entry.sequence <= last { blame("\(node.name) has \(entry.sequence) after \(last)") }
            if entry.sequence > last + 1, entry.sequence > prunedBelow {
                blame("\(node.name) has nothing between \(last) and \(entry.sequence)")
            }
            last = entry.sequence
            guard last > 0, last <= log.lineage.count, log.lineage[Int(last) - 1].publish == entry.publish else {
                blame("\(node.name) has another entry at \(last)")
                continue
            }
        }
    }
}
