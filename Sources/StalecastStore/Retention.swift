import GRDB
import StalecastWire

/// Rule for versions that may go: beyond the newest so many of a scope, or no longer active for too long.
struct Retention: Sendable {
    let maxVersions: Int
    let maxAge: Duration

    init(maxVersions: Int, maxAge: Duration) {
        self.maxVersions = max(1, maxVersions)
        self.maxAge = maxAge
    }

    /// ``maxAge``, saturated.
    var maxAgeMicroseconds: Int64 { Int64(min(max(maxAge / .microseconds(1), 0), 9e18)) }

    /// Removes at most `limit` versions, of `scope` or of all scopes, inside the caller's transaction.
    ///  Versions are counted, not numbers: an origin's skip some. Age counts from when a version stopped being active,
    /// which is when a later one came. The newest of a scope stays, and so does, whatever its age, the one before it:
    /// it is what one rolls back to.
    ///
    /// - Parameter now: nil removes by number only.
    /// - Returns: how many were removed; `limit` means there may be more.
    func apply(to scope: Scope?, now: Timestamp?, limit: Int, _ db: Database) throws -> Int {
        let cutoff = now.map { $0.microseconds.subtractingReportingOverflow(maxAgeMicroseconds) }
        let oldest = cutoff.map { $0.overflow ? Int64.min : $0.partialValue } ?? .min
        // `counted` is the lowest number among the newest `maxVersions`, `aged` the version that was active at the
        // cutoff or the one before the newest. Versions below either go, unless a release is based on them.
        try db.run(
            """
            DELETE FROM version WHERE rowid IN (
                SELECT version.rowid FROM (
                    SELECT id,
                        coalesce(
                            (SELECT number FROM version AS v WHERE v.scope = scope.id
                                ORDER BY number DESC LIMIT 1 OFFSET ?3 - 1), 0) AS counted,
                        (SELECT coalesce(max(number), 0) FROM version AS v
                            WHERE v.scope = scope.id AND v.number < coalesce(
                                (SELECT number FROM version AS young WHERE young.scope = scope.id
                                    AND young.updateTime >= ?4 ORDER BY number LIMIT 1), scope.latest)) AS aged
                    FROM scope WHERE (?1 IS NULL OR (project = ?1 AND namespace = ?2))
                ) AS kept CROSS JOIN version
                ON version.scope = kept.id AND version.number < max(kept.counted, kept.aged)
                WHERE NOT EXISTS (
                    SELECT 1 FROM release JOIN scope USING (project, namespace)
                    WHERE scope.id = version.scope AND release.base = version.number)
                LIMIT ?5)
            """, [scope?.project.description, scope?.namespace.description, maxVersions, oldest, limit])
        return db.changesCount
    }
}

/// Pace of retention in a burst of publishes: every so many are followed by one removal, which writes a page of an index
/// once for all of them.
struct RetentionPace: Sendable {
    private var last: [Scope: (time: Timestamp, publishes: Int)] = [:]

    static let publishes = 16
    private static let microseconds: Int64 = 60_000_000

    /// Counts a publish.
    ///
    /// - Returns: whether retention applies now: to every publish, unless it is one of a burst and a few versions more
    ///   are less than a tenth of what is kept.
    mutating func isDue(_ scope: Scope, _ retention: Retention, now: Timestamp) -> Bool {
        guard let (time, publishes) = last[scope] else {
            last[scope] = (now, 0)
            return true
        }
        let (passed, overflow) = now.microseconds.subtractingReportingOverflow(time.microseconds)
        let isBurst = !overflow && (0..<Self.microseconds).contains(passed) && publishes + 1 < Self.publishes
        let waits = isBurst && retention.maxVersions > 10 * Self.publishes
        last[scope] = waits ? (time, publishes + 1) : (now, 0)
        return !waits
    }
}

/// Whether the wall clock may be believed when it says that versions are old. A clock that is ahead (wrong time source,
/// a machine that was resumed) would otherwise take versions away that do not come back when it does.
///
/// Time counts as passed while the clock was read in steps shorter than the age; across a longer step, in either
/// direction, the time is not known, and versions age again from there: what is kept too long costs only space.
struct ClockWitness: Sendable {
    private var last: Timestamp?
    private var steadySince: Timestamp?

    /// Steps up to this are believed whatever the age.
    private static let believable: Int64 = 86_400_000_000

    /// Begins with the ages of the stored versions; before this, no version ages.
    mutating func begin(_ db: Database, _ retention: Retention, now: Timestamp) throws {
        guard last == nil else { return }
        let step = max(retention.maxAgeMicroseconds, Self.believable)
        // Time between stored versions counts as passed only behind the newest long step.
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT (SELECT updateTime FROM version ORDER BY sequence DESC LIMIT 1) AS last,
                       (SELECT max(updateTime) FROM (
                           SELECT updateTime, updateTime - lag(updateTime) OVER (ORDER BY sequence) AS step FROM version)
                        WHERE step > ?1 OR step < -?1) AS steady
                """, arguments: [step])
        last = (row?["last"] as Int64?).map { Timestamp(microseconds: $0) } ?? now
        steadySince = (row?["steady"] as Int64?).map { Timestamp(microseconds: $0) }
    }

    /// Reads the clock.
    ///
    /// - Returns: `now` as far as versions may be removed by it, nil while they may not; and whether it has just
    ///   jumped.
    mutating func read(_ now: Timestamp, _ retention: Retention) -> (trusted: Timestamp?, hasJumped: Bool) {
        guard let last else { return (nil, false) }
        let age = retention.maxAgeMicroseconds
        // The clock and stored times may be any Int64: a wrong one must not trap.
        let (step, overflow) = now.microseconds.subtractingReportingOverflow(last.microseconds)
        self.last = now
        if overflow || step.magnitude > max(age, Self.believable).magnitude {
            steadySince = now
            return (nil, true)
        }
        guard let steadySince else { return (now, false) }
        let steady = now.microseconds.subtractingReportingOverflow(steadySince.microseconds)
        guard steady.overflow || steady.partialValue >= age else { return (nil, false) }
        self.steadySince = nil
        return (now, false)
    }
}
