package import StalecastCluster
package import StalecastRecords
package import StalecastWire
import Synchronization

/// The shared log of a cluster in etcd. Under the prefix `P`: `P/charter`; `P/head`, the newest entry's identity,
/// which each append compares and replaces; `P/log/<20 digits>`; and under `P~`, unwatched, the pieces of long
/// contents.
///  An append compares the head's and the log metadata's values, not their revisions alone: after a restore etcd gives
/// the same revisions again.
package final class EtcdLog: SharedLog {
    let client: EtcdClient
    let prefix: String
    /// Watches that stand at the same time.
    let watchCount: Int
    let openedWatches = Atomic(0)

    /// - Parameters:
    ///   - cluster: names the keys, `/stalecast/<cluster>/…`.
    ///   - watches: connections on which the log is watched at the same time. Two for a node at the end of a long line,
    ///     where a lost packet holds up everything behind it on its connection for a round trip and 200 ms.
    package init(_ client: EtcdClient, cluster: String, watches: Int = 1) {
        self.client = client
        watchCount = watches
        prefix = "/stalecast/\(cluster)"
    }

    var logMetadataKey: String { prefix + "/charter" }
    var headKey: String { prefix + "/head" }
    var logKeys: String { prefix + "/log/" }

    func key(_ sequence: CommitSequence) -> String {
        let digits = String(sequence)
        return logKeys + String(repeating: "0", count: 20 - digits.count) + digits
    }

    /// Everything from a sequence on; `0` follows `/`.
    func range(from sequence: CommitSequence, limit: Int = 0) -> EtcdRange {
        EtcdRange(key(sequence), to: prefix + "/log0", limit: limit)
    }

    package func page(after sequence: CommitSequence, limit: Int) async throws(LogError) -> LogPage {
        guard sequence < .max else { throw .unreadable("no sequence follows \(sequence)") }
        let found = try await transact(
            then: [
                .range(EtcdRange(logMetadataKey)), .range(EtcdRange(headKey)),
                .range(range(from: sequence + 1, limit: limit)),
            ], for: .read
        ).found
        guard found.count == 3, let logMetadata = try logMetadata(found[0]), let head = try head(found[1]) else {
            throw .unreadable("there is no log under \(prefix)")
        }
        return LogPage(logMetadata: logMetadata, head: head, entries: try found[2].map(entry))
    }

    package func append(
        _ entry: LogEntry, under logMetadata: LogMetadata, owner: AssignmentOwner?
    ) async throws(LogError) -> Appended {
        var compares: [EtcdCompare] = [
            .value(headKey, Array(entry.previous.description.utf8)), .value(logMetadataKey, logMetadata.encoded),
            .modRevision(logMetadataKey, logMetadata.revision), .createRevision(range(from: entry.sequence), 0),
        ]
        if case .beside(let content) = entry.content {
            // Fails as well when the key is not there.
            compares.append(.value(manifestKey(content), Array(String(content.chunks).utf8)))
            compares += (0..<content.chunks).map { .exists(chunkKey(content, $0)) }
        }
        var asked: [EtcdOperation] = [
            .range(EtcdRange(key(entry.sequence))), .range(EtcdRange(logMetadataKey)), .range(EtcdRange(headKey)),
        ]
        if let owner {
            // Key of an assignment among ``EtcdRecords``.
            let assignment = EtcdRange("\(prefix)/record/\(owner.assignment)")
            compares.append(.createRevision(assignment, owner.token))
            asked.append(.range(assignment))
        }
        let result = try await transact(
            if: compares,
            then: [
                .put(key(entry.sequence), entry.encoded), .put(headKey, Array(LogHead(of: entry).description.utf8)),
            ],
            otherwise: asked, for: .append)
        if result.succeeded { return .committed }
        let outcome = try outcome(result.found, under: logMetadata)
        guard case .elsewhere(entry.previous) = outcome, let owner else { return outcome }
        return result.found[3].first?.createRevision == owner.token ? outcome : .deposed
    }

    private func outcome(_ found: [[EtcdKeyValue]], under logMetadata: LogMetadata) throws(LogError) -> Appended {
        guard found.count >= 3, let now = try self.logMetadata(found[1]), let head = try head(found[2]) else {
            throw .unreadable("the log under \(prefix) is gone")
        }
        if let taken = found[0].first { return .taken(try entry(taken)) }
        return now == logMetadata ? .elsewhere(head) : .superseded(now)
    }

    package func isCurrent(_ head: LogHead, under logMetadata: LogMetadata) async throws(LogError) -> Bool {
        // Its read makes a transaction that changes nothing wait for the log's end.
        let read = [EtcdOperation.range(EtcdRange(headKey, keysOnly: true))]
        return try await transact(
            if: [
                .value(headKey, Array(head.description.utf8)), .value(logMetadataKey, logMetadata.encoded),
                .modRevision(logMetadataKey, logMetadata.revision),
            ], then: read, otherwise: read, for: .check
        ).succeeded
    }

    package func amend(_ old: LogMetadata?, to new: LogMetadata, at head: LogHead?) async throws(LogError)
        -> LogMetadata
    {
        var new = new
        new.renewStamp()
        var compares: [EtcdCompare]
        var puts: [EtcdOperation] = [.put(logMetadataKey, new.encoded)]
        if let old {
            compares = [.value(logMetadataKey, old.encoded), .modRevision(logMetadataKey, old.revision)]
        } else {
            compares = [
                .createRevision(EtcdRange(logMetadataKey), 0), .createRevision(EtcdRange(headKey), 0),
                .createRevision(range(from: 0), 0),
            ]
            puts.append(.put(headKey, Array(LogHead.empty.description.utf8)))
        }
        if let head { compares.append(.value(headKey, Array(head.description.utf8))) }
        let result = try await transact(
            if: compares, then: puts, otherwise: [.range(EtcdRange(logMetadataKey))], for: .logMetadata)
        if result.succeeded { return try LogMetadata(new.encoded, revision: result.revision) }
        guard let found = result.found.first, let logMetadata = try logMetadata(found) else {
            throw .unreadable("under \(prefix) there are keys, but no charter")
        }
        return logMetadata
    }

    package func prune(
        _ sequences: [CommitSequence], under old: LogMetadata, to new: LogMetadata
    ) async throws(LogError) -> Bool {
        if sequences.isEmpty { return false }
        let there = try await transact(then: sequences.map { .range(EtcdRange(key($0), keysOnly: true)) }, for: .prune)
        let keys = Set(there.found.joined().map { String(decoding: $0.key, as: UTF8.self) })
        let removed = sequences.map(key).filter(keys.contains)
        // The log metadata stays where nothing goes: changing it makes appends under way fail and be drafted anew.
        if removed.isEmpty { return true }
        var new = new
        new.renewStamp()
        return try await transact(
            if: [.value(logMetadataKey, old.encoded), .modRevision(logMetadataKey, old.revision)],
            then: [.put(logMetadataKey, new.encoded)] + removed.map { .delete(EtcdRange($0)) }, for: .prune
        ).succeeded
    }

    // MARK: Long contents

    var contentKeys: String { prefix + "~/content/" }
    var contentsEnd: String { prefix + "~/content0" }

    private func chunkKey(_ content: ContentKey, _ number: Int) -> String {
        "\(contentKeys)\(content.digest)/\(number)"
    }

    /// Says that all pieces are there.
    private func manifestKey(_ content: ContentKey) -> String { "\(contentKeys)\(content.digest)/\(Self.manifest)" }

    private static let manifest = "all"

    package func store(_ chunks: [[UInt8]], of content: ContentKey) async throws(LogError) {
        for (number, chunk) in chunks.enumerated() {
            _ = try await transact(then: [.put(chunkKey(content, number), chunk)], for: .content)
        }
        _ = try await transact(then: [.put(manifestKey(content), Array(String(content.chunks).utf8))], for: .content)
    }

    package func content(of entry: LogEntry) async throws(LogError) -> [UInt8] {
        switch entry.content {
        case .inline(let content): return content
        case .absent: return []
        case .beside(let content):
            var chunks: [[UInt8]] = []
            for number in 0..<content.chunks {
                let found = try await transact(
                    then: [.range(EtcdRange(chunkKey(content, number)))], for: .content
                ).found.first?.first
                guard let found else { throw .unreadable("a piece of the content of \(entry.sequence) is missing") }
                chunks.append(found.value)
            }
            return try LogEntry.content(content, from: chunks)
        }
    }

    /// Keys in one read.
    private static let contentPage = 1000

    package func contents() async throws(LogError) -> [StoredContent] {
        var found: [String: [String: Int64]] = [:]
        var start: String? = contentKeys
        while let from = start {
            let range = EtcdRange(from, to: contentsEnd, limit: Self.contentPage, keysOnly: true)
            let page = try await transact(then: [.range(range)], for: .content).found.first ?? []
            for keyValue in page {
                let name = String(decoding: keyValue.key.dropFirst(contentKeys.utf8.count), as: UTF8.self)
                let parts = name.split(separator: "/", omittingEmptySubsequences: false)
                // Keys that are no pieces stay.
                if parts.count == 2 { found[String(parts[0]), default: [:]][String(parts[1])] = keyValue.modRevision }
            }
            start = page.count < Self.contentPage ? nil : page.last?.keyAfter
        }
        return found.map { StoredContent(digest: $0.key, revisions: $0.value) }
    }

    /// Compares and operations of one transaction; etcd takes 128.
    private static let maxOperations = 120

    package func remove(_ content: StoredContent, at head: LogHead) async throws(LogError) -> Bool {
        let root = "\(contentKeys)\(content.digest)/"
        guard content.revisions.count <= Self.maxOperations else { return false }
        var compares: [EtcdCompare] = [.value(headKey, Array(head.description.utf8))]
        compares += content.revisions.map { .modRevision(root + $0.key, $0.value) }
        if content.revisions[Self.manifest] == nil {
            compares.append(.createRevision(EtcdRange(root + Self.manifest), 0))
        }
        let deletions = content.revisions.keys.map { EtcdOperation.delete(EtcdRange(root + $0)) }
        return try await transact(if: compares, then: deletions, for: .content).succeeded
    }

    // MARK: Reading

    func transact(
        if compares: [EtcdCompare] = [], then: [EtcdOperation], otherwise: [EtcdOperation] = [],
        for purpose: EtcdPurpose
    ) async throws(LogError) -> EtcdTransaction.Result {
        let transaction = EtcdTransaction(if: compares, then: then, otherwise: otherwise)
        do throws(EtcdFailure) { return try await client.transact(transaction, for: purpose) } catch {
            throw error.logError
        }
    }

    private func logMetadata(_ found: [EtcdKeyValue]) throws(LogError) -> LogMetadata? {
        guard let found = found.first else { return nil }
        return try LogMetadata(found.value, revision: found.modRevision)
    }

    private func head(_ found: [EtcdKeyValue]) throws(LogError) -> LogHead? {
        guard let found = found.first else { return nil }
        guard let head = LogHead(String(decoding: found.value, as: UTF8.self)) else {
            throw .unreadable("\(headKey) is not a head")
        }
        return head
    }

    func entry(_ found: EtcdKeyValue) throws(LogError) -> LogEntry {
        let digits = String(decoding: found.key.dropFirst(logKeys.utf8.count), as: UTF8.self)
        guard let sequence = CommitSequence(digits) else { throw .unreadable("\(logKeys)\(digits) is no entry's key") }
        return try LogEntry(found.value, at: sequence)
    }
}
