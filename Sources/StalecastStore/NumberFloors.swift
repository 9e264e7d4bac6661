import GRDB
package import StalecastWire

/// Numbers up to which a scope has given versions away in a history that is lost (a restore, a database that was copied
/// back): clients may hold them, and take only higher ones for news. The next version is above.
package struct NumberFloors: Sendable, Hashable {
    /// Floors by scope, where known.
    package private(set) var ofScopes: [Scope: VersionNumber] = [:]
    /// Floor of every other scope; also the least of all.
    package private(set) var ofAll: VersionNumber = 0

    package init() {}

    package subscript(scope: Scope) -> VersionNumber { max(ofScopes[scope] ?? 0, ofAll) }

    package mutating func raise(_ scope: Scope, to number: VersionNumber) {
        ofScopes[scope] = max(ofScopes[scope] ?? 0, number)
    }

    package mutating func raiseAll(to number: VersionNumber) { ofAll = max(ofAll, number) }

    package mutating func raise(to other: NumberFloors) {
        for (scope, number) in other.ofScopes { raise(scope, to: number) }
        raiseAll(to: other.ofAll)
    }

    /// Whether no number of `other` is above.
    package func cover(_ other: NumberFloors) -> Bool {
        ofAll >= other.ofAll && other.ofScopes.allSatisfy { self[$0.key] >= $0.value }
    }

    /// Raises all floors by `steps` more commits, whose scopes are not known.
    mutating func raise(by steps: UInt64) {
        let steps = Int(clamping: steps)
        ofScopes = ofScopes.mapValues { $0 + steps }
        raiseAll(to: VersionNumber(0) + steps)
    }

    /// Numbers that a store has given away: its scopes' newest ones and its own floors.
    static func givenAway(_ db: Database) throws -> NumberFloors {
        var floors = try stored(db)
        for (scope, number) in try latest(db) { floors.raise(scope, to: number) }
        return floors
    }

    static func latest(_ db: Database) throws -> [Scope: VersionNumber] {
        try Row.fetchAll(db, sql: "SELECT project, namespace, latest FROM scope").reduce(into: [:]) {
            $0[try $1.scope()] = $1.number("latest")
        }
    }

    /// Its own floors, but for scopes whose newest number is as high.
    static func aboveStored(_ db: Database) throws -> NumberFloors {
        var floors = try stored(db)
        for row in try Row.fetchAll(db, sql: "SELECT project, namespace, latest FROM scope") {
            let scope = try row.scope()
            guard let floor = floors.ofScopes[scope], floor.rawValue <= row["latest"] as Int64 else { continue }
            floors.ofScopes[scope] = nil
        }
        return floors
    }

    static func stored(_ db: Database) throws -> NumberFloors {
        var floors = NumberFloors()
        // A backup may be older than the table.
        guard try db.tableExists("floor") else { return floors }
        for row in try Row.fetchAll(db, sql: "SELECT project, namespace, number FROM floor") {
            let number = row.number("number")
            if (row["project"] as String).isEmpty {
                floors.raiseAll(to: number)
            } else {
                floors.raise(try row.scope(), to: number)
            }
        }
        return floors
    }

    /// Floor of one scope, inside a publish's transaction.
    static func number(of scope: Scope, _ db: Database) throws -> VersionNumber {
        let statement = try db.cachedStatement(
            sql: "SELECT max(number) FROM floor WHERE (project = ? AND namespace = ?) OR project = ''")
        return VersionNumber(clamping: try Int64.fetchOne(statement, arguments: scope.arguments) ?? 0)
    }

    /// Raises what is stored; never lowers it.
    func write(_ db: Database) throws {
        // A row without a project holds the floor of all scopes.
        let rows = ofScopes.map { ($0.project.description, $0.namespace.description, $1) } + [("", "", ofAll)]
        for (project, namespace, number) in rows where number > 0 {
            try db.execute(
                sql: """
                    INSERT INTO floor VALUES (?, ?, ?)
                    ON CONFLICT DO UPDATE SET number = max(number, excluded.number)
                    """, arguments: [project, namespace, number.rawValue])
        }
    }
}
