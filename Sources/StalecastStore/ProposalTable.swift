import GRDB
import StalecastWire

/// The SQL of the table `proposal`: at most ``Proposal/mostOpen`` open ones of a scope with their content, and
/// ``Proposal/mostSettled`` others without. Every function runs inside the caller's transaction.
enum ProposalTable {
    private static let ofScope = "FROM proposal WHERE project = :project AND namespace = :namespace"

    /// Stores an open one under the next number.
    static func insert(
        _ make: (Int64) -> Proposal, content: [UInt8], of scope: Scope, now: Timestamp, _ db: Database
    ) throws -> Proposal {
        // Expired ones must not count as open below.
        try settle(scope, now: now, db)
        let open = try Int.fetchOne(
            db, sql: "SELECT count(*) \(ofScope) AND state = 'OPEN'", arguments: arguments(scope))
        if let open, open >= Proposal.mostOpen { throw StoreError.tooManyProposals(open) }
        let proposal = make(try last(of: scope, db) + 1)
        try db.execute(
            sql: "INSERT INTO proposal VALUES (:project, :namespace, :number, :state, :time, :record, :content)",
            arguments: arguments(
                scope,
                [
                    "number": proposal.number, "state": proposal.state.rawValue,
                    "time": proposal.createTime.microseconds, "record": JSONValue.object(proposal.json).text(),
                    "content": String(decoding: content, as: UTF8.self),
                ]))
        return proposal
    }

    /// The highest number; 0: none.
    static func last(of scope: Scope, _ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT max(number) \(ofScope)", arguments: arguments(scope)) ?? 0
    }

    /// Puts one as nodes share it, in place of what there is under its number; an open one's content stays.
    static func mirror(_ proposal: Proposal, content: [UInt8]?, now: Timestamp, _ db: Database) throws {
        // SQLite computes the values before REPLACE removes the row of which they read the content.
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO proposal
                VALUES (:project, :namespace, :number, :state, :time, :record, coalesce(
                    :content, (SELECT content \(ofScope) AND number = :number AND :state = 'OPEN')))
                """,
            arguments: arguments(
                proposal.scope,
                [
                    "number": proposal.number, "state": proposal.state.rawValue,
                    "time": proposal.createTime.microseconds, "record": JSONValue.object(proposal.json).text(),
                    "content": content.map { String(decoding: $0, as: UTF8.self) },
                ]))
        try settle(proposal.scope, now: now, db)
    }

    /// An open one and its content.
    ///
    /// - Throws: ``StoreError/unknownProposal(_:)``, ``StoreError/notOpen(_:_:)``.
    static func open(
        _ number: Int64, of scope: Scope, now: Timestamp, _ db: Database
    ) throws -> (Proposal, content: [UInt8]) {
        guard let (proposal, content) = try one(number, of: scope, now: now, db) else {
            throw StoreError.unknownProposal(number)
        }
        guard proposal.state == .open, let content else { throw StoreError.notOpen(number, proposal.state) }
        return (proposal, content)
    }

    /// Ends an open one; its content goes: an approved one is a version.
    static func decide(
        _ number: Int64, of scope: Scope, _ state: Proposal.State, _ decision: Proposal.Decision, _ db: Database
    ) throws {
        guard let (proposal, _) = try one(number, of: scope, now: decision.time, db) else {
            throw StoreError.unknownProposal(number)
        }
        var decided = proposal
        (decided.state, decided.decision) = (state, decision)
        try db.execute(
            sql: """
                UPDATE proposal SET state = :state, record = :record, content = NULL
                WHERE project = :project AND namespace = :namespace AND number = :number
                """,
            arguments: arguments(
                scope,
                [
                    "number": number, "state": state.rawValue,
                    "record": JSONValue.object(decided.json).text(),
                ]))
        try settle(scope, now: decision.time, db)
    }

    /// Proposal with its content while that is kept; nil when there is none.
    static func one(
        _ number: Int64, of scope: Scope, now: Timestamp, _ db: Database
    ) throws -> (Proposal, content: [UInt8]?)? {
        let row = try Row.fetchOne(
            db, sql: "SELECT * \(ofScope) AND number = :number", arguments: arguments(scope, ["number": number]))
        return try row.map { (try proposal($0, scope, now), ($0["content"] as String?).map { Array($0.utf8) }) }
    }

    /// Newest first.
    ///
    /// - Parameter first: nothing newer.
    static func page(
        of scope: Scope, isOpen: Bool, from first: Int64, limit: Int, now: Timestamp, _ db: Database
    ) throws -> [Proposal] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT number, state, createTime, record \(ofScope) AND number <= :first
                AND (:all OR (state = 'OPEN' AND createTime > :oldest)) ORDER BY number DESC LIMIT :limit
                """,
            arguments: arguments(
                scope, ["first": first, "limit": limit, "all": !isOpen, "oldest": oldest(now)])
        ).map { try proposal($0, scope, now) }
    }

    /// Open ones of all scopes that publish themselves.
    static func scheduled(now: Timestamp, _ db: Database) throws -> [Proposal] {
        // The pattern is a rough filter: a user's text may match it too.
        try Row.fetchAll(
            db,
            sql: """
                SELECT project, namespace, number, state, createTime, record FROM proposal
                WHERE state = 'OPEN' AND record LIKE '%"publishTime"%' ORDER BY createTime
                """
        ).map { try proposal($0, $0.scope(), now) }.filter { $0.publishTime != nil && $0.state == .open }
    }

    /// Ends those that were open too long, and lets go of old ones.
    private static func settle(_ scope: Scope, now: Timestamp, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE proposal SET state = 'EXPIRED', content = NULL
                WHERE project = :project AND namespace = :namespace AND state = 'OPEN' AND createTime <= :oldest
                """, arguments: arguments(scope, ["oldest": oldest(now)]))
        try db.execute(
            sql: """
                DELETE FROM proposal WHERE project = :project AND namespace = :namespace AND state <> 'OPEN'
                AND number <= (
                    SELECT number \(ofScope) AND state <> 'OPEN' ORDER BY number DESC LIMIT 1 OFFSET :kept)
                """, arguments: arguments(scope, ["kept": Proposal.mostSettled]))
    }

    /// Made then or earlier, they have expired.
    private static func oldest(_ now: Timestamp) -> Int64 {
        now.microseconds.subtractingReportingOverflow(Int64(Proposal.life / .microseconds(1))).partialValue
    }

    private static func proposal(_ row: Row, _ scope: Scope, _ now: Timestamp) throws -> Proposal {
        let created: Int64 = row["createTime"]
        // A state that this program does not know cannot be approved.
        let stored = Proposal.State(rawValue: row["state"]) ?? .expired
        // A proposal expires by its age, also before its row says so.
        return Proposal(
            try row.record(), scope: scope, number: row["number"],
            state: stored == .open && created <= oldest(now) ? .expired : stored,
            createTime: Timestamp(microseconds: created))
    }

    private static func arguments(
        _ scope: Scope, _ others: [String: (any DatabaseValueConvertible)?] = [:]
    ) -> StatementArguments {
        StatementArguments(
            others.merging(["project": scope.project.description, "namespace": scope.namespace.description]) { $1 })
    }
}
