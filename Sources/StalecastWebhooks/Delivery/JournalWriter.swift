import Foundation
import GRDB
import StalecastWire

/// Brings the entries of one transaction to the database. Of several cursors of one webhook and scope only the last is
/// written, and with it where the webhook's attempts end.
struct JournalWriter {
    /// A webhook that entries of this transaction are about.
    private struct Held {
        let id: WebhookID
        /// Its last attempt; 0 for none.
        var head: Int64
        var isHeadNew = false
        /// Index of the first of its lanes; nil for none.
        var lane: Int?
    }

    private struct HeldLane {
        let scope: Scope
        var record: JournalEntry.LaneRecord
        /// Index of the webhook's next lane.
        let next: Int?
    }

    private let db: Database
    private let log: AttemptLog
    private var addition = AttemptLog.Addition()
    private var held: [Held] = []
    private var lanes: [HeldLane] = []
    private var places: [WebhookID: Int] = [:]
    /// Last attempts that were settled before the end, which only a removal makes necessary.
    private var settled: [WebhookID: Int64] = [:]
    private var chunk = AttemptChunk()
    private var chunkEnd = Timestamp(microseconds: 0)
    /// Scopes as rows have them.
    private var names: [Scope: String] = [:]

    init(_ db: Database, _ log: AttemptLog) {
        self.db = db
        self.log = log
    }

    mutating func take(_ batch: JournalBatch) throws {
        places.reserveCapacity(batch.items.count / 2)
        try batch.records.withUnsafeBytes { records in
            for item in batch.items {
                switch item {
                case .entry(let entry): try take(entry)
                case .attempt(let attempt):
                    try take(attempt, UnsafeRawBufferPointer(rebasing: records[attempt.record]))
                }
            }
        }
    }

    private mutating func take(_ entry: JournalEntry) throws {
        switch entry {
        case .lane(let id, let scope, let record): keep(scope, record, of: hold(id))
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

    /// - Returns: where the webhook stands in ``held``.
    private mutating func hold(_ id: WebhookID) -> Int {
        // In a turn with one answer its cursor follows its attempt.
        if let last = held.last, last.id == id { return held.count - 1 }
        let next = held.count
        // One look into the table finds the place or makes it.
        let place = { (known: inout Int) in known }(&places[id, default: next])
        if place == next { held.append(Held(id: id, head: head(of: id))) }
        return place
    }

    private mutating func keep(_ scope: Scope, _ record: JournalEntry.LaneRecord, of place: Int) {
        var lane = held[place].lane
        while let index = lane {
            if lanes[index].scope == scope {
                lanes[index].record = record
                return
            }
            lane = lanes[index].next
        }
        lanes.append(HeldLane(scope: scope, record: record, next: held[place].lane))
        held[place].lane = lanes.count - 1
    }

    private mutating func take(_ attempt: JournalBatch.Attempt, _ record: UnsafeRawBufferPointer) throws {
        let place = hold(attempt.webhook)
        let id = AttemptChunk.id(chunk: log.nextChunk + addition.chunks, index: chunk.count)
        chunk.append(attempt.webhook, previous: held[place].head, rest: record)
        held[place].head = id
        held[place].isHeadNew = true
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
        chunk.removeAll()
    }

    private mutating func settle() throws {
        try writeChunk()
        addition.heads.reserveCapacity(held.count)
        var cursors = try CursorStatement(db)
        for held in held {
            if held.isHeadNew { addition.heads.append((held.id, held.head)) }
            var lane = held.lane
            if lane == nil { try run("INSERT OR REPLACE INTO head VALUES (?, ?)", [held.id.description, held.head]) }
            while let index = lane {
                try cursors.write(held.id, lanes[index].scope, lanes[index].record, head: held.head)
                lane = lanes[index].next
            }
        }
        try cursors.end()
        held = []
        lanes = []
        places = [:]
    }

    /// Last attempt of a webhook that is not held back; 0 for none.
    private func head(of id: WebhookID) -> Int64 { settled[id] ?? log.heads[id] ?? 0 }

    private mutating func remove(_ id: WebhookID) throws {
        // What comes after may be about a webhook of the same name.
        let known = addition.heads.count
        try settle()
        for table in ["cursor", "beyond", "extra", "health", "head", "dead"] {
            try run("DELETE FROM \(table) WHERE webhook = ?", [id.description])
        }
        addition.heads.append((id, 0))
        for (webhook, head) in addition.heads[known...] { settled[webhook] = head }
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
