package import StalecastRecords
package import StalecastStore
import StalecastWire

/// Changes of the log that concern all nodes.
extension ClusterNode {
    /// Entries removed in one step; etcd takes 128 operations.
    private static let prunedAtOnce = 100
    /// Nothing younger is removed from the log: a node that finds nothing in a place must not think that it was
    /// removed, and proposers ask for ten minutes.
    private static let leastAge: Duration = .seconds(3600)

    /// Removes from the log what retention has removed here; a scope's newest version stays. Any node may, at any time.
    ///
    /// - Returns: how many entries were looked at; fewer than 100 is the end.
    package func prune() async throws -> Int {
        let sequences = try await store.removed(olderThan: Self.leastAge, limit: Self.prunedAtOnce)
        guard let last = sequences.last, follower.isReady, let logMetadata = follower.logMetadata else { return 0 }
        var new = logMetadata
        new.prunedBelow = max(logMetadata.prunedBelow, last + 1)
        // Under another log metadata they are tried again when this node knows it.
        guard try await log.prune(sequences, under: logMetadata, to: new) else { return 0 }
        try await store.noteRemoved(sequences)
        // The next are removed under the log metadata that this made.
        _ = await catchUp(within: .seconds(2))
        return sequences.count
    }

    /// Takes over everything that is in the log: for a replica that was begun empty, before anything is answered from
    /// it. A copy that was cut off goes on at its end.
    ///
    /// - Returns: false when the log is not the one that the replica began with, by now.
    package static func fill(_ store: TemplateStore, from log: any SharedLog) async throws -> Bool {
        let state = try store.replicaState()
        var (last, limit) = (state.logHead, PageLimit())
        // The log may have been replaced meanwhile: the next entry must follow the one that was copied last.
        var isResumed = last.sequence > 0
        while true {
            let page = try await log.page(after: last.sequence, &limit)
            guard page.logMetadata.epoch == store.epoch else { return false }
            if isResumed, page.entries.first.map({ $0.previous != last }) ?? (page.head != last) {
                try await store.becamePartial()
                return false
            }
            isResumed = false
            if page.entries.isEmpty {
                try await store.becameWhole()
                store.noteVerified()
                return true
            }
            let before = last.sequence
            for entry in page.entries {
                guard entry.sequence > last.sequence + 1 || entry.previous == last else {
                    // Two that were read together are of the log as it is.
                    if last.sequence == before { return false }
                    throw LogError.unreadable("entry \(entry.sequence) of the log does not follow the one before")
                }
                last = LogHead(of: entry)
            }
            try await store.apply(try await versions(of: page.entries, from: log))
        }
    }

    static func versions(of entries: [LogEntry], from log: any SharedLog) async throws -> [SharedVersion] {
        var versions: [SharedVersion] = []
        for entry in entries {
            let content = entry.content == .absent ? nil : try await log.content(of: entry)
            var change = entry.change
            change.notes.fetchWindowMs = Int(clamping: entry.fetchWindowMs)
            versions.append(
                SharedVersion(
                    change: change, content: content, publish: entry.publish.description, releases: entry.releases))
        }
        return versions
    }

    // MARK: The log metadata

    /// Reads a page, and first adds to the log metadata the given-away numbers that only this replica knows: a node
    /// that was away may know more than the one that began this history. An edge only takes over the metadata's
    /// numbers.
    func page(after: CommitSequence, limit: Int) async throws(LogError) -> LogPage {
        let page = try await log.page(after: after, limit: limit)
        let logMetadata = page.logMetadata
        // The replica of another history starts over, and keeps its numbers.
        if logMetadata == upkeep.floored || logMetadata.epoch != follower.epoch { return page }
        let own: NumberFloors
        do throws(StoreError) {
            let known = try await store.floors()
            own = known.above
            if !known.all.cover(logMetadata.floors) { try await store.raiseFloors(to: logMetadata.floors) }
        } catch {
            stalled(error.description)
            throw .notDone(error.description)
        }
        guard settings.isEdge || logMetadata.isFrozen || logMetadata.floors.cover(own) else {
            _ = try await amend(logMetadata) { $0.floors.cover(own) ? nil : $0.raised(to: own) }
            return try await self.page(after: after, limit: limit)
        }
        upkeep.floored = logMetadata
        return page
    }

    func renewEpoch(_ logMetadata: LogMetadata, at head: LogHead) async {
        do throws(LogError) {
            let new = try renewed(logMetadata, .random(using: &random))
            let held = try await log.amend(logMetadata, to: new, at: head)
            if held.epoch == new.epoch {
                figures.renewals += 1
                settings.report(.renewing)
            } else if held == logMetadata {
                // The log has gone on, or what was read is of long ago, and may be once more.
                // Cancelled: what follows is no longer begun.
                try? await Task.sleep(for: reach.backoff.next(&random))
            }
        } catch {
            missed(error)
            // Cancelled, as above.
            try? await Task.sleep(for: Self.applyAgain)
        }
    }

    /// Begins another history with the log as it is; every node takes its versions again, every client is told to
    /// forget.
    ///
    /// - Throws: also when it is not known whether it was done.
    /// - Returns: the log metadata that holds.
    package func renewEpoch() async throws(LogError) -> LogMetadata {
        // Catches up first, so that the new history knows all numbers that were given away.
        _ = await catchUp(within: .seconds(2))
        let epoch = Epoch.random(using: &random)
        return try await amend { logMetadata throws(LogError) in
            logMetadata.epoch == epoch ? nil : try renewed(logMetadata, epoch)
        }
    }

    func renewed(_ logMetadata: LogMetadata, _ epoch: Epoch) throws(LogError) -> LogMetadata {
        var new = logMetadata.renewed(epoch)
        // Clients may hold what this node has given away in a history that is lost.
        do throws(StoreError) { new.raiseFloors(to: try store.numbersGivenAway()) } catch {
            throw .notDone(error.description)
        }
        return new
    }

    /// Says in log metadata that does not yet which key the cluster's nodes seal with.
    ///
    /// - Returns: the log metadata that holds, which may say another.
    package func claim(keyCheck: String) async throws(LogError) -> LogMetadata {
        try await amend { logMetadata in
            if logMetadata.keyCheck != nil { return nil }
            var new = logMetadata
            new.keyCheck = keyCheck
            return new
        }
    }

    /// Raises the format: from now on every node must understand what this program does.
    package func upgrade() async throws(LogError) -> LogMetadata {
        try await amend { logMetadata in
            if logMetadata.minimumVersion >= LogMetadata.format { return nil }
            var new = logMetadata
            new.minimumVersion = LogMetadata.format
            return new
        }
    }

    /// Attempts at an amendment: other nodes may change the log metadata at the same time, each once in a while.
    private static let amendments = 10

    private func amend(_ wanted: (LogMetadata) throws(LogError) -> LogMetadata?) async throws(LogError) -> LogMetadata {
        try await amend(try await log.page(after: follower.head.sequence, limit: 1).logMetadata, wanted)
    }

    /// Changes the log metadata until it says what is wanted, whichever node changes it too.
    ///
    /// - Parameters:
    ///   - log metadata: that holds, as far as is known.
    ///   - wanted: nil for one that says it.
    /// - Returns: the log metadata that holds, and says it.
    func amend(
        _ logMetadata: LogMetadata, _ wanted: (LogMetadata) throws(LogError) -> LogMetadata?
    ) async throws(LogError) -> LogMetadata {
        var held = logMetadata
        for _ in 0..<Self.amendments {
            guard let new = try wanted(held) else { return held }
            // The answer is what holds, perhaps another node's: the next round shows whether it says what is wanted.
            held = try await log.amend(held, to: new)
        }
        guard try wanted(held) == nil else {
            throw .notDone("others change the cluster's charter again and again; try once more")
        }
        return held
    }
}

extension ReplicaState {
    /// Its end, as the log names it.
    var logHead: LogHead { LogHead(publish.isEmpty ? "0" : "\(head) \(publish)") ?? .empty }
}
