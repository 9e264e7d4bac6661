package import StalecastRecords
import Synchronization

/// The shared records of a cluster in etcd: `P/record/<kind>/<id>`, and under `P~/kept/`, unwatched, what owners of
/// assignments keep.
package final class EtcdRecords: SharedRecords {
    private let client: EtcdClient
    private let keys: String
    private let kept: String
    /// Kinds that are read and watched; nil: all.
    private let kinds: Set<String>?
    private let watches = Mutex(0)

    /// Records of one read: of 64 KiB each they are 13 MB.
    private static let pageSize = 200
    /// A watch is restarted after this long, and everything is read: known etcds have lost events.
    private static let watchLifetime = Duration.seconds(600)
    /// Notices that wait; when there are more, the watch ends, and everything is read.
    private static let maxWatchEvents = 256

    /// - Parameters:
    ///   - cluster: names the keys, `/stalecast/<cluster>/…`.
    ///   - kinds: leaves out all records of others, for a node far away; nil leaves out none.
    package init(_ client: EtcdClient, cluster: String, kinds: Set<String>? = nil) {
        self.client = client
        self.kinds = kinds
        keys = "/stalecast/\(cluster)/record/"
        kept = "/stalecast/\(cluster)~/kept/"
    }

    private func key(_ name: RecordName) -> String { "\(keys)\(name)" }

    // MARK: Reading

    package func all() async throws(LogError) -> RecordPage {
        var page: RecordPage?
        for prefix in kinds.map({ $0.sorted().map { "\(keys)\($0)/" } }) ?? [keys] {
            try await read(prefix, into: &page)
        }
        return page ?? RecordPage([], revision: 0)
    }

    private func read(_ prefix: String, into page: inout RecordPage?) async throws(LogError) {
        var start: String? = prefix
        while let from = start {
            let result = try await transact(
                EtcdTransaction(then: [.range(EtcdRange(from, to: "\(prefix.dropLast())0", limit: Self.pageSize))]))
            let found = result.found.first ?? []
            var whole = page ?? RecordPage([], revision: result.revision)
            whole.records += found.compactMap(record)
            page = whole
            start = found.count < Self.pageSize ? nil : found.last?.keyAfter
        }
    }

    private func isHeard(_ name: RecordName) -> Bool { kinds?.contains(name.kind) ?? true }

    package func records(_ names: [RecordName]) async throws(LogError) -> RecordPage {
        page(try await transact(EtcdTransaction(then: names.map { .range(EtcdRange(key($0))) })))
    }

    /// Records that reads of single keys found.
    private func page(_ result: EtcdTransaction.Result) -> RecordPage {
        RecordPage(result.found.compactMap(\.first).compactMap(record), revision: result.revision)
    }

    /// nil for a key that holds no record.
    private func record(_ found: EtcdKeyValue) -> SharedRecord? {
        guard let name = name(found.key) else { return nil }
        return SharedRecord(name: name, value: found.value, revision: found.modRevision, creation: found.createRevision)
    }

    private func name(_ key: [UInt8]) -> RecordName? {
        RecordName(String(decoding: key.dropFirst(keys.utf8.count), as: UTF8.self))
    }

    // MARK: Changing

    package func put(_ puts: [RecordPut]) async throws(LogError) -> (isDone: Bool, page: RecordPage) {
        var transaction = EtcdTransaction(then: [])
        for put in puts {
            let key = key(put.name)
            transaction.compares.append(
                put.replaced.map { .modRevision(key, $0) } ?? .createRevision(EtcdRange(key), 0))
            transaction.then.append(.put(key, put.value, lease: put.lease ?? 0))
            transaction.otherwise.append(.range(EtcdRange(key)))
        }
        // Reads behind the puts: etcd works through a transaction in order, and they bring the new revisions.
        transaction.then += transaction.otherwise
        let result = try await transact(transaction)
        return (result.succeeded, page(result))
    }

    package func remove(_ name: RecordName, at revision: Int64) async throws(LogError) -> RecordOutcome {
        let key = key(name)
        let result = try await transact(
            EtcdTransaction(
                if: [.modRevision(key, revision)], then: [.delete(EtcdRange(key))], otherwise: [.range(EtcdRange(key))])
        )
        let record = result.found.last?.first.flatMap(record)
        return result.succeeded
            ? .done(record, revision: result.revision) : .conflict(record, revision: result.revision)
    }

    // MARK: Bells

    package func watch() async throws(LogError) -> AsyncStream<RecordWatchEvent> {
        let attempt = watches.withLock { count in
            count += 1
            return count
        }
        let (watchEvents, continuation) = AsyncStream.makeStream(
            of: RecordWatchEvent.self, bufferingPolicy: .bufferingOldest(Self.maxWatchEvents))
        let end = try await answer(
            try await client.watch(
                EtcdRange(keys, to: "\(keys.dropLast())0"), attempt: attempt,
                onNotice: { [self] notice in
                    if notice.isCreated { continuation.yield(.opened) }
                    let names = notice.events.compactMap { name($0.keyValue.key) }.filter(isHeard)
                    guard !names.isEmpty else { return }
                    if case .dropped = continuation.yield(.changed(names)) { continuation.finish() }
                },
                onEnd: { continuation.finish() }))
        // Cancelled by the end of the watch, which it else brings about.
        let timer = Task {
            try await Task.sleep(for: Self.watchLifetime)
            end()
        }
        continuation.onTermination = { _ in
            timer.cancel()
            end()
        }
        return watchEvents
    }

    // MARK: Leases

    package func grant(_ lifetime: Duration) async throws(LogError) -> RecordLease {
        try await answer(try await client.grantLease(lifetime))
    }

    package func renew(_ lease: RecordLease) async throws(LogError) -> Bool {
        try await answer(try await client.renewLease(lease)) > 0
    }

    package func revoke(_ lease: RecordLease) async throws(LogError) {
        try await answer(try await client.revokeLease(lease))
    }

    // MARK: What owners keep

    package func keep(
        _ state: [UInt8], of assignment: RecordName, token: AssignmentLease.Token
    ) async throws(LogError) -> Bool {
        try await transact(
            EtcdTransaction(
                if: [.createRevision(EtcdRange(key(assignment)), token)], then: [.put("\(kept)\(assignment)", state)]),
            for: .kept
        ).succeeded
    }

    package func kept(of assignment: RecordName) async throws(LogError) -> [UInt8]? {
        let reading = EtcdTransaction(then: [.range(EtcdRange("\(kept)\(assignment)"))])
        return try await transact(reading, for: .kept).found.first?.first?.value
    }

    // MARK: Calls

    private func transact(
        _ transaction: EtcdTransaction, for purpose: EtcdPurpose = .record
    ) async throws(LogError) -> EtcdTransaction.Result {
        try await answer(try await client.transact(transaction, for: purpose))
    }

    private func answer<Answer>(
        _ call: @autoclosure () async throws(EtcdFailure) -> Answer
    ) async throws(LogError) -> Answer {
        do throws(EtcdFailure) { return try await call() } catch { throw error.logError }
    }
}
