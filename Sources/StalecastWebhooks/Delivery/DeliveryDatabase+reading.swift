import Foundation
import GRDB
import StalecastWire

extension DeliveryDatabase {
    /// A webhook's attempts, newest first.
    ///
    /// - Parameter before: the id the former page ended with.
    func attempts(
        of id: WebhookID, limit: Int, before: Int64?
    ) throws -> [(id: Int64, attempt: DeliveryAttempt)] {
        try queue.read { db in
            var next = try before.map { try Self.record($0, of: id, db)?.previous ?? 0 } ?? head(of: id)
            var found: [(Int64, DeliveryAttempt)] = []
            while found.count < limit, next > 0, let record = try Self.record(next, of: id, db) {
                found.append((next, record.attempt))
                next = record.previous
            }
            return found
        }
    }

    /// Nil when it is older than is kept.
    private static func record(_ number: Int64, of id: WebhookID, _ db: Database) throws -> AttemptRecord? {
        let statement = try db.cachedStatement(sql: "SELECT attempts FROM chunk WHERE id = ?")
        let bytes = try Data.fetchOne(statement, arguments: [AttemptChunk.chunk(of: number)])
        let record = bytes.flatMap { AttemptChunk.record(of: number, in: Array($0)) }
        return record?.attempt.webhook == id ? record : nil
    }

    func deadLetters(of id: WebhookID, limit: Int, after: Int64?) throws -> [DeadLetter] {
        try queue.read { db in
            try Row.fetchAll(
                db, sql: "SELECT * FROM dead WHERE webhook = ? AND id > ? ORDER BY id LIMIT ?",
                arguments: [id.description, after ?? 0, limit]
            ).compactMap(Self.letter)
        }
    }

    private static func letter(_ row: Row) throws -> DeadLetter? {
        guard let scope = Scope(stored: row["scope"]) else { return nil }
        return DeadLetter(
            id: row["id"], scope: scope, version: VersionNumber(clamping: row["version"] as Int64),
            sequence: try sequence(row, "sequence"), reason: row["reason"],
            attempts: row["attempts"], lastStatus: row["lastStatus"],
            movedAt: Timestamp(microseconds: row["movedAt"]))
    }

    /// Takes dead letters out, all of the webhook's or one, and notes that their versions are owed again. Those of another
    /// history stay, and those for which the store has nothing to send.
    func revive(
        of id: WebhookID, letter: Int64?, where canBeSent: (DeadLetter) -> Bool
    ) throws -> [DeadLetter] {
        try queue.write { db in
            let choice =
                " AND epoch = (SELECT epoch FROM history) AND reason != '\(DeadLetter.pruned)'"
                + (letter == nil ? "" : " AND id = ?")
            var arguments: StatementArguments = [id.description]
            if let letter { arguments += [letter] }
            let letters = try Row.fetchAll(
                db, sql: "SELECT * FROM dead WHERE webhook = ?\(choice) ORDER BY id", arguments: arguments
            ).compactMap(Self.letter).filter(canBeSent)
            for letter in letters {
                try db.execute(sql: "DELETE FROM dead WHERE id = ?", arguments: [letter.id])
                try db.execute(
                    sql: "INSERT OR IGNORE INTO extra VALUES (?, ?, ?)",
                    arguments: [id.description, letter.scope.description, Int64(letter.sequence)])
            }
            return letters
        }
    }
}

extension Scope {
    /// Reads ``description``, the form that rows hold.
    init?(stored text: String) {
        let parts = text.split(separator: "/", maxSplits: 1)
        guard parts.count == 2, let project = try? ProjectID(String(parts[0])),  // rows hold names that were checked
            let namespace = try? Namespace(String(parts[1]))
        else { return nil }
        self.init(project: project, namespace: namespace)
    }
}
