import GRDB

/// Position after the last stored attempt.
struct AttemptLog {
    private(set) var heads: [WebhookID: Int64] = [:]
    private(set) var nextChunk: Int64 = 1
    /// Attempts written so far, those that were removed since included.
    private(set) var total: Int64 = 0

    struct Addition {
        /// 0 for a webhook that was removed. Of several of one webhook the last counts.
        var heads: [(webhook: WebhookID, head: Int64)] = []
        var chunks: Int64 = 0
        var attempts: Int64 = 0
    }

    init() {}

    init(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db, sql: "SELECT webhook, attempt FROM cursor WHERE attempt > 0 UNION ALL SELECT webhook, attempt FROM head"
        )
        while let row = try rows.next() {
            guard let id = WebhookID(row["webhook"] as String) else { continue }
            heads[id] = max(heads[id] ?? 0, row["attempt"])
        }
        let last = try Row.fetchOne(db, sql: "SELECT id, total FROM chunk ORDER BY id DESC LIMIT 1")
        // A number is never used again while anything may point to it.
        nextChunk = max(last?["id"] ?? 0, AttemptChunk.chunk(of: heads.values.max() ?? 0)) + 1
        total = last?["total"] ?? 0
    }

    mutating func take(_ addition: Addition) {
        for (id, head) in addition.heads { heads[id] = head == 0 ? nil : head }
        nextChunk += addition.chunks
        total += addition.attempts
    }
}
