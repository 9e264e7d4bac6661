package import StalecastRecords
package import StalecastStore
package import StalecastWire

/// History of a store of its own, as entries of a log that goes on with it.
package struct StoreHistory: Sendable {
    /// Head of the log when all entries are laid.
    package let head: LogHead
    private let store: TemplateStore
    private let node: String

    /// - Parameter node: named by the entries.
    /// - Throws: ``LogError/unreadable(_:)``.
    package init(of store: TemplateStore, node: String) throws(LogError) {
        let sequence = store.head()
        guard let head = Self.head(sequence, of: store.epoch) else { throw .unreadable("the store's head is no head") }
        (self.head, self.store, self.node) = (head, store, node)
    }

    /// Publish id that is the same each time: by its head a store knows the log that a run which was cut off has
    /// founded.
    package static func publish(_ epoch: Epoch, _ sequence: CommitSequence) -> PublishID {
        PublishID(of: "\(epoch).\(sequence)")
    }

    private static func head(_ sequence: CommitSequence, of epoch: Epoch) -> LogHead? {
        LogHead(sequence == 0 ? "0" : "\(sequence) \(publish(epoch, sequence))")
    }

    /// Lays the entries of all stored versions, and of the releases that are of use still.
    ///
    /// - Parameters:
    ///   - progress: versions laid so far, and of how many.
    ///   - lay: takes an entry, and the pieces of its content when it is long.
    /// - Returns: number of versions, and the metadata that the log begins with.
    package func lay(
        progress: (Int, Int) -> Void, _ lay: (LogEntry, [[UInt8]]) async throws -> Void
    ) async throws -> (versions: Int, logMetadata: LogMetadata) {
        let releases = releases
        for (sequence, (release, change)) in releases where sequence != change.sequence {
            if let step = entry(change.at(sequence), [release], .absent) { try await lay(step, []) }
        }
        let steps = Set(releases.keys)
        var (count, after, wholeFrom) = (0, CommitSequence(0), CommitSequence(1))
        let all = try await store.countVersions()
        while true {
            let versions = try await store.versions(after: after, limit: 50)
            if versions.isEmpty { break }
            for version in versions {
                let sequence = version.change.sequence
                while steps.contains(after + 1), after + 1 < sequence { after += 1 }
                if sequence != after + 1 { wholeFrom = sequence }
                after = sequence
                let (content, chunks) = LogEntry.storing(version.content)
                let ownReleases = releases[sequence].map { [$0.release] } ?? []
                if let entry = entry(version.change, ownReleases, content) { try await lay(entry, chunks) }
                count += 1
            }
            progress(count, all)
        }
        while steps.contains(after + 1) { after += 1 }
        // The newest commits may be of versions that retention took.
        if after < head.sequence { wholeFrom = head.sequence + 1 }
        var logMetadata = LogMetadata(epoch: store.epoch)
        logMetadata.prunedBelow = wholeFrom
        logMetadata.raiseFloors(to: try store.numbersGivenAway())
        return (count, logMetadata)
    }

    /// Releases of the current versions, and releases that a current version ended. The key is the sequence of the
    /// entry that has the release's state: its last stage, or the current version.
    private var releases: [CommitSequence: (release: Release, change: TemplateChange)] {
        store.currentTemplates.scopes.reduce(into: [:]) { releases, scope in
            guard let release = store.release(of: scope), let current = store.currentTemplates[scope]?.change else {
                return
            }
            if release.version == current.version {
                releases[release.reached.last?.sequence ?? current.sequence] = (release, current)
            } else if release.successor == current.version {
                releases[current.sequence] = (release, current)
            }
        }
    }

    private func entry(_ change: TemplateChange, _ releases: [Release], _ content: LogEntry.Content) -> LogEntry? {
        Self.head(change.sequence - 1, of: store.epoch).map {
            LogEntry(
                change: change, releases: releases, publish: Self.publish(store.epoch, change.sequence), after: $0,
                node: node, content: content)
        }
    }
}
