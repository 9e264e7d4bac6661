package import StalecastCluster
import StalecastWire

/// A log that goes on with the history of a store.
extension EtcdLog {
    /// Puts an entry of a history that began elsewhere; it counts from ``found(_:head:)`` on. As often as needed.
    ///
    /// - Throws: also when there is a log already.
    package func lay(_ entry: LogEntry, _ chunks: [[UInt8]]) async throws(LogError) {
        if case .beside(let key) = entry.content { try await store(chunks, of: key) }
        try await unlessFounded([.put(key(entry.sequence), entry.encoded)])
    }

    /// What was laid is the log, from now on.
    package func found(_ charter: Charter, head: LogHead) async throws(LogError) {
        var charter = charter
        var random = SystemRandomNumberGenerator()
        charter.stamp = PublishID.random(using: &random).description
        try await unlessFounded([
            .put(headKey, Array(head.description.utf8)), .put(charterKey, charter.encoded),
        ])
    }

    private func unlessFounded(_ operations: [EtcdOperation]) async throws(LogError) {
        let nothing = EtcdCompare.createRevision(EtcdRange(charterKey), 0)
        guard try await transact(EtcdTransaction(if: [nothing], then: operations), for: .append).succeeded else {
            throw .unreadable("there is a log already under \(prefix)")
        }
    }
}
