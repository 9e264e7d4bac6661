package import StalecastCluster
package import StalecastRecords

/// Lays a log that goes on with the history of a store. No node reads it before it is founded; until then one that
/// begins later takes the place from one that is under way, or was cut off.
package struct EtcdFounding: Sendable {
    private let log: EtcdLog
    /// Node whose turn it is, as long as it stands in etcd.
    private let turn: [UInt8]

    fileprivate init(_ log: EtcdLog, _ turn: [UInt8]) {
        self.log = log
        self.turn = turn
    }

    /// Puts an entry of a history that began elsewhere; it counts from ``found(_:head:)`` on. As often as needed.
    ///
    /// - Throws: also when there is a log already.
    package func lay(_ entry: LogEntry, _ chunks: [[UInt8]]) async throws(LogError) {
        if case .beside(let key) = entry.content { try await log.store(chunks, of: key) }
        try await log.unlessFounded(
            [.put(log.key(entry.sequence), entry.encoded)], if: [.value(log.turnKey, turn)])
    }

    /// Makes the log metadata and the head the log, from now on.
    package func found(_ logMetadata: LogMetadata, head: LogHead) async throws(LogError) {
        var logMetadata = logMetadata
        logMetadata.renewStamp()
        try await log.unlessFounded(
            [
                .put(log.headKey, Array(head.description.utf8)), .put(log.logMetadataKey, logMetadata.encoded),
                .delete(EtcdRange(log.turnKey)),
            ],
            // Entries after the head would belong to another history.
            if: [.value(log.turnKey, turn), .createRevision(log.range(from: head.sequence + 1), 0)])
    }
}

extension EtcdLog {
    /// Removes what was laid before, of this store or another, and not founded.
    ///
    /// - Throws: also when there is a log already.
    package func beginFounding() async throws(LogError) -> EtcdFounding {
        let turn = Array(PublishID.random().description.utf8)
        try await unlessFounded([
            .delete(range(from: 0)), .delete(EtcdRange(headKey)), .delete(EtcdRange(contentKeys, to: contentsEnd)),
            .put(turnKey, turn),
        ])
        return EtcdFounding(self, turn)
    }

    fileprivate var turnKey: String { prefix + "/founding" }

    fileprivate func unlessFounded(_ operations: [EtcdOperation], if more: [EtcdCompare] = []) async throws(LogError) {
        let result = try await transact(
            if: [.createRevision(EtcdRange(logMetadataKey), 0)] + more, then: operations,
            otherwise: [.range(EtcdRange(logMetadataKey))], for: .append)
        if result.succeeded { return }
        guard result.found.first?.isEmpty ?? false else {
            throw .unreadable("there is a log already under \(prefix)")
        }
        throw .notDone("another migration into \(prefix) has begun meanwhile; let one come to its end")
    }
}
