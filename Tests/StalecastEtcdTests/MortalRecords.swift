import StalecastRecords
import Synchronization

/// Records of a node that can die: from then on nothing of it reaches the store, as after kill -9.
final class MortalRecords: SharedRecords {
    private let records: any SharedRecords
    private let isDead = Mutex(false)

    init(_ records: any SharedRecords) { self.records = records }

    func die() { isDead.withLock { $0 = true } }

    private var alive: any SharedRecords {
        get throws(LogError) {
            if isDead.withLock({ $0 }) { throw .notDone("dead") }
            return records
        }
    }

    func all() async throws(LogError) -> RecordPage { try await alive.all() }
    func records(_ names: [RecordName]) async throws(LogError) -> RecordPage { try await alive.records(names) }
    func watch() async throws(LogError) -> AsyncStream<RecordWatchEvent> { try await alive.watch() }
    func grant(_ lifetime: Duration) async throws(LogError) -> RecordLease { try await alive.grant(lifetime) }
    func renew(_ lease: RecordLease) async throws(LogError) -> Bool { try await alive.renew(lease) }
    func revoke(_ lease: RecordLease) async throws(LogError) { try await alive.revoke(lease) }
    func kept(of assignment: RecordName) async throws(LogError) -> [UInt8]? { try await alive.kept(of: assignment) }

    func put(_ puts: [RecordPut]) async throws(LogError) -> (isDone: Bool, page: RecordPage) {
        try await alive.put(puts)
    }

    func remove(_ name: RecordName, at revision: Int64) async throws(LogError) -> RecordOutcome {
        try await alive.remove(name, at: revision)
    }

    func keep(_ state: [UInt8], of assignment: RecordName, token: AssignmentLease.Token) async throws(LogError) -> Bool
    {
        try await alive.keep(state, of: assignment, token: token)
    }
}
