package import StalecastRecords
import Synchronization

/// Shared records in memory: what etcd does with our transactions, without etcd. Leases end when ``expire(_:)`` says
/// so.
package final class MemoryRecords: SharedRecords {
    private struct State {
        var records: [RecordName: (record: SharedRecord, lease: RecordLease?)] = [:]
        var kept: [RecordName: [UInt8]] = [:]
        var leases: Set<RecordLease> = []
        var revision: Int64 = 0
        var watches: [AsyncStream<RecordWatchEvent>.Continuation] = []
        var isAway = false
        /// Calls to come whose answer is lost, though they are done.
        var lost = 0
        var reads = 0
        var documents = 0
    }

    private let state = Mutex(State())

    package init() {}

    package var reads: Int { state.withLock { $0.reads } }

    /// Documents that owners of assignments kept so far.
    package var documents: Int { state.withLock { $0.documents } }

    /// Nothing answers, and all watches end.
    package func setAway(_ isAway: Bool) {
        state.withLock { state in
            state.isAway = isAway
            if isAway { for watch in state.watches { watch.finish() } }
            if isAway { state.watches = [] }
        }
    }

    package func endWatches() {
        state.withLock { state in
            for watch in state.watches { watch.finish() }
            state.watches = []
        }
    }

    package func loseAnswers(_ count: Int) { state.withLock { $0.lost = count } }

    /// A change that no watch tells of.
    package func change(secretly name: RecordName, to value: [UInt8]?) {
        state.withLock { state in _ = set(name, value, nil, &state, rings: false) }
    }

    package func expire(_ lease: RecordLease) {
        state.withLock { state in
            state.leases.remove(lease)
            for (name, held) in state.records where held.lease == lease { _ = set(name, nil, nil, &state) }
        }
    }

    /// Goes back to a snapshot, as a restore does: its revisions are given again.
    package func restore(_ snapshot: [SharedRecord], revision: Int64) {
        state.withLock { state in
            state.records = [:]
            for record in snapshot { state.records[record.name] = (record, nil) }
            state.revision = revision
        }
        endWatches()
    }

    package var revision: Int64 { state.withLock { $0.revision } }

    private func set(
        _ name: RecordName, _ value: [UInt8]?, _ lease: RecordLease?, _ state: inout State, rings: Bool = true,
        isFirst: Bool = true
    ) -> SharedRecord? {
        // Changes of one step have one revision.
        if isFirst { state.revision += 1 }
        let record = value.map {
            SharedRecord(
                name: name, value: $0, revision: state.revision,
                creation: state.records[name]?.record.creation ?? state.revision)
        }
        state.records[name] = record.map { ($0, lease) }
        if rings { for watch in state.watches { watch.yield(.changed([name])) } }
        return record
    }

    private func call<Value: Sendable>(_ body: (inout State) throws(LogError) -> Value) throws(LogError) -> Value {
        let result = state.withLock { state -> Result<Value, LogError> in
            guard !state.isAway else { return .failure(.notDone("away")) }
            // A cancelled task makes no calls, as with etcd.
            guard !Task.isCancelled else { return .failure(.notDone("cancelled")) }
            let result = Result { () throws(LogError) in try body(&state) }
            guard state.lost > 0 else { return result }
            state.lost -= 1
            return .failure(.unknown("lost"))
        }
        return try result.get()
    }

    package func all() async throws(LogError) -> RecordPage {
        try call { state in
            state.reads += 1
            return RecordPage(state.records.values.map(\.record), revision: state.revision)
        }
    }

    package func records(_ names: [RecordName]) async throws(LogError) -> RecordPage {
        try call { state in
            state.reads += 1
            return RecordPage(names.compactMap { state.records[$0]?.record }, revision: state.revision)
        }
    }

    package func put(_ puts: [RecordPut]) async throws(LogError) -> (isDone: Bool, page: RecordPage) {
        try call { (state) throws(LogError) in
            let known = puts.compactMap { state.records[$0.name]?.record }
            guard puts.allSatisfy({ state.records[$0.name]?.record.revision == $0.replaced }) else {
                return (false, RecordPage(known, revision: state.revision))
            }
            guard puts.compactMap(\.lease).allSatisfy(state.leases.contains) else { throw .notDone("no such lease") }
            let records = puts.enumerated().compactMap { number, put in
                set(put.name, put.value, put.lease, &state, isFirst: number == 0)
            }
            return (true, RecordPage(records, revision: state.revision))
        }
    }

    package func remove(_ name: RecordName, at revision: Int64) async throws(LogError) -> RecordOutcome {
        try call { state in
            let known = state.records[name]?.record
            guard known?.revision == revision else { return .conflict(known, revision: state.revision) }
            return .done(set(name, nil, nil, &state), revision: state.revision)
        }
    }

    package func watch() async throws(LogError) -> AsyncStream<RecordWatchEvent> {
        try call { state in
            let (stream, continuation) = AsyncStream.makeStream(of: RecordWatchEvent.self)
            state.watches.append(continuation)
            continuation.yield(.opened)
            return stream
        }
    }

    package func grant(_ lifetime: Duration) async throws(LogError) -> RecordLease {
        try call { state in
            state.revision += 1
            state.leases.insert(state.revision)
            return state.revision
        }
    }

    package func renew(_ lease: RecordLease) async throws(LogError) -> Bool { try call { $0.leases.contains(lease) } }

    package func revoke(_ lease: RecordLease) async throws(LogError) {
        try call { _ in }
        expire(lease)
    }

    package func keep(_ kept: [UInt8], of assignment: RecordName, token: AssignmentLease.Token) async throws(LogError)
        -> Bool
    {
        try call { state in
            guard state.records[assignment]?.record.creation == token else { return false }
            state.kept[assignment] = kept
            state.documents += 1
            return true
        }
    }

    package func kept(of assignment: RecordName) async throws(LogError) -> [UInt8]? { try call { $0.kept[assignment] } }
}
