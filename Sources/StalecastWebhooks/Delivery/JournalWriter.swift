import Foundation
import GRDB
import StalecastWire

/// Brings the entries of one transaction to the database. Of several cursors of one webhook and scope only the last is
/// written, and with it where the webhook's attempts end.
struct JournalWriter {
    /// Entries about one webhook that are held back.
    private struct Pending {
        var lanes: [(scope: Scope, record: JournalEntry.LaneRecord)] = []
        /// Its last attempt; nil for none in this transaction.
        var head: Int64?

        mutating func keep(_ scope: Scope, _ record: JournalEntry.LaneRecord) {
            if let index = lanes.firstIndex(where: { $0.scope == scope }) {
                lanes[index].record = record
            } else {
                lanes.append((scope, record))
            }
        }

        /// - Returns: the attempt before it.
        mutating func replaceHead(by attempt: Int64) -> Int64? {
            defer { head = attempt }
            return head
        }
    }

    private let db: Database
    private let log: AttemptLog
    private var addition = AttemptLog.Addition()
    private var pending: [WebhookID: Pending] = [:]
    private var chunk = AttemptChunk()
    private var chunkEnd = Timestamp(microseconds: 0)
    /// Scopes as rows have them.
    private var names: [Scope: String] = [:]

    init(_ db: Database, _ log: AttemptLog) {
        self.db = db
        self.log = log
    }

    mutating func take(_ entry: JournalEntry) throws {
        switch entry {
        case .lane(let id, let scope, let record): pending[id, default: Pending()].keep(scope, record)
        case .attempt(let attempt): try take(attempt)
        case .beyond(let id, let scope, let place):
            try run(
                "INSERT OR IGNORE INTO beyond (webhook, scope, sequence, version) VALUES (?, ?, ?, ?)",
                [id.description, name(scope), Int64(place.sequence), place.version.rawValue])
        case .health(let id, let health): try write(id, health)
        case .dead(let id, let letter): try bury(letter, of: id)
        case .extras(let id, let scope, let sequences, let areOwed):
            let sql =
                areOwed
                ? "INSERT OR IGNORE INTO extra VALUES (?, ?, ?)"
                : "DELETE FROM extra WHERE webhook = ? AND scope = ? AND sequence = ?"
            for sequence in sequences { try run(sql, [id.description, name(scope), Int64(sequence)]) }
        case .removed(let id): try remove(id)
        }
    }

    /// Writes what is still held back.
    mutating func end() throws -> AttemptLog.Addition {
        try settle()
        return addition
    }

    /// A receiver that refuses everything leaves only so many.
    private mutating func bury(_ letter: DeadLetter, of id: WebhookID) throws {
        try run(
            """
            INSERT INTO dead (webhook, scope, version, sequence, reason, attempts, lastStatus, movedAt, epoch)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT epoch FROM history))
            """,
            [
                id.description, name(letter.scope), letter.version.rawValue, Int64(letter.sequence), letter.reason,
                letter.attempts, letter.lastStatus, letter.movedAt.microseconds,
            ])
        try run(
            """
            DELETE FROM dead WHERE webhook = ?1 AND id <=
              (SELECT id FROM dead WHERE webhook = ?1 ORDER BY id DESC LIMIT 1 OFFSET \(DeliveryDatabase.maxDeadLetters))
            """, [id.description])
    }

    private mutating func take(_ attempt: DeliveryAttempt) throws {
        let id = AttemptChunk.id(chunk: log.nextChunk + addition.chunks, index: chunk.count)
        let previous =
            pending[attempt.webhook, default: Pending()].replaceHead(by: id) ?? head(of: attempt.webhook)
        chunk.append(attempt, previous: previous)
        chunkEnd = max(chunkEnd, attempt.startedAt)
        addition.attempts += 1
        if chunk.isFull { try writeChunk() }
    }

    private mutating func writeChunk() throws {
        guard chunk.count > 0 else { return }
        try run(
            "INSERT INTO chunk (id, endedAt, total, attempts) VALUES (?, ?, ?, ?)",
            [
                log.nextChunk + addition.chunks, chunkEnd.microseconds, log.total + addition.attempts,
                Data(chunk.bytes),
            ])
        addition.chunks += 1
        chunk = AttemptChunk()
    }

    private mutating func settle() throws {
        try writeChunk()
        let cursor = try db.cachedStatement(
            sql: """
                INSERT INTO cursor (webhook, scope, version, sequence, attempt, ackVersion, ackSequence, givenUp, isRenewed)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
                ON CONFLICT DO UPDATE SET version = excluded.version, sequence = excluded.sequence,
                  attempt = excluded.attempt, ackVersion = excluded.ackVersion, ackSequence = excluded.ackSequence,
                  givenUp = excluded.givenUp, isRenewed = 0
                """)
        for (id, held) in pending {
            if let head = held.head { addition.heads[id] = head }
            let head = held.head ?? head(of: id)
            for (scope, record) in held.lanes {
                try cursor.execute(arguments: [
                    id.description, name(scope), record.cursor.version.rawValue, Int64(record.cursor.sequence), head,
                    record.acknowledged.version.rawValue, Int64(record.acknowledged.sequence), Int64(record.givenUp),
                ])
            }
            if held.lanes.isEmpty { try run("INSERT OR REPLACE INTO head VALUES (?, ?)", [id.description, head]) }
        }
        pending = [:]
    }

    /// Last attempt of a webhook that is not held back; 0 for none.
    private func head(of id: WebhookID) -> Int64 { addition.heads[id] ?? log.heads[id] ?? 0 }

    private mutating func remove(_ id: WebhookID) throws {
        // What comes after may be about a webhook of the same name.
        try settle()
        for table in ["cursor", "beyond", "extra", "health", "head", "dead"] {
            try run("DELETE FROM \(table) WHERE webhook = ?", [id.description])
        }
        addition.heads[id] = 0
    }

    private func write(_ id: WebhookID, _ health: JournalEntry.TargetHealth) throws {
        try run(
            """
            INSERT OR REPLACE INTO health (webhook, failures, failedAttempts, failingSince, disabledReason, disabledSince,
              failingTime, receiver) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                id.description, health.failures, health.failedAttempts, health.failingSince?.microseconds,
                health.disabledReason, health.disabledSince?.microseconds, health.failingTime, health.receiver,
            ])
    }

    private mutating func name(_ scope: Scope) -> String {
        if let known = names[scope] { return known }
        let name = scope.description
        names[scope] = name
        return name
    }

    private func run(_ sql: String, _ arguments: StatementArguments) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }
}
