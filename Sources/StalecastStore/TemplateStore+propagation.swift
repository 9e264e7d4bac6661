import GRDB
package import StalecastWire
import Synchronization

/// Records of how versions came to their clients, one for each that ended; the store does not read them.
extension TemplateStore {
    /// Rows of a scope that are kept.
    private static let maxRows = 300

    /// Keeps rows, on the writer's queue; returns at once. What cannot be written is lost, and said.
    package func keep(_ ended: [PropagationRow]) {
        guard !ended.isEmpty, state.withLock({ $0.refusal == nil }) else { return }
        database.asyncWriteWithoutTransaction { db in
            do {
                try db.inTransaction {
                    for row in ended { try Self.write(row, db) }
                    return .commit
                }
            } catch let error as DatabaseError where error.isNoSpace {
                self.foundNoSpace()
            } catch {
                self.log(.warning, "propagation could not be stored", ["error": "\(error)"])
            }
        }
    }

    private static func write(_ row: PropagationRow, _ db: Database) throws {
        let names = row.scope.arguments
        try db.execute(
            sql: "INSERT OR REPLACE INTO propagation VALUES (?, ?, ?, ?)",
            arguments: names + [row.version.rawValue, row.record.text()])
        try db.execute(
            sql: "DELETE FROM propagation WHERE project = ? AND namespace = ? AND number <= ?",
            arguments: names + [row.version.rawValue - Int64(maxRows)])
    }

    /// The newest first.
    ///
    /// - Parameter version: only this one's; nil is all.
    package func propagations(
        of scope: Scope, _ version: VersionNumber? = nil, limit: Int = 1
    ) async throws(StoreError) -> [PropagationRow] {
        try await read { try Self.rows(of: scope, version, limit: limit, $0) }
    }

    /// The one of a version; blocks, for the start.
    package func propagationAtStart(of scope: Scope, _ version: VersionNumber) throws(StoreError) -> PropagationRow? {
        try readNow { try Self.rows(of: scope, version, limit: 1, $0).first }
    }

    private static func rows(
        of scope: Scope, _ version: VersionNumber?, limit: Int, _ db: Database
    ) throws -> [PropagationRow] {
        let range = version.map { $0.rawValue...$0.rawValue } ?? 0...Int64.max
        return try Row.fetchAll(
            db,
            sql: """
                SELECT number, record FROM propagation
                WHERE project = ? AND namespace = ? AND number BETWEEN ? AND ? ORDER BY number DESC LIMIT ?
                """,
            arguments: scope.arguments + [range.lowerBound, range.upperBound, limit]
        ).map { PropagationRow(scope: scope, version: $0.number("number"), record: try $0.record()) }
    }
}

/// The record of one version.
package struct PropagationRow: Sendable {
    package let scope: Scope
    package let version: VersionNumber
    package let record: JSONValue

    package init(scope: Scope, version: VersionNumber, record: JSONValue) {
        (self.scope, self.version, self.record) = (scope, version, record)
    }
}
