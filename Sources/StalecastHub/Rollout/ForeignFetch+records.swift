import Foundation
import StalecastWire

/// Clients that a node tells the others of, as records.
extension RolloutTracker.ForeignFetch {
    /// Traits that the clients of one row of a record have in common.
    private struct Kind: Hashable {
        let scope: Scope
        let fetched: VersionNumber
        let active: VersionNumber
        let failed: VersionNumber
        let isCounted: Bool
        let isHere: Bool?

        init(_ fetch: RolloutTracker.ForeignFetch) {
            (scope, fetched, active) = (fetch.scope, fetch.fetched, fetch.active)
            (failed, isCounted, isHere) = (fetch.failed, fetch.isCounted, fetch.isHere)
        }

        func row(_ keys: [UInt64]) -> JSONValue {
            let bytes = keys.reduce(into: Data()) { bytes, key in
                withUnsafeBytes(of: key.littleEndian) { bytes.append(contentsOf: $0) }
            }
            var object: JSONObject = [
                "scope": .string("/\(scope)"), "fetched": .string(String(fetched)), "active": .string(String(active)),
                "keys": .string(bytes.base64EncodedString()),
            ]
            if failed > 0 { object["failed"] = .string(String(failed)) }
            if !isCounted { object["counted"] = false }
            object["here"] = isHere.map { .bool($0) }
            return .object(object)
        }
    }

    /// Number of keys, of 8 bytes, in one record.
    private static let keysInRecord = 5000
    /// Room that a row takes besides its keys, in keys.
    private static let keysOfRow = 24

    /// Records that tell other nodes of clients.
    ///
    /// - Parameter most: records at most. What clients claim makes rows: those of the fewest clients are left out.
    static func records(of fetches: [RolloutTracker.ForeignFetch], at node: String, most: Int) -> [[UInt8]] {
        var rows: [(kind: Kind, keys: [UInt64])] = []
        let groups = Dictionary(grouping: fetches, by: Kind.init)
        for (kind, fetches) in groups.sorted(by: { $0.value.count > $1.value.count }) {
            for start in stride(from: 0, to: fetches.count, by: keysInRecord) {
                rows.append((kind, fetches[start..<min(start + keysInRecord, fetches.count)].map(\.key)))
            }
        }
        var (records, next) = ([[UInt8]](), 0)
        while records.count < most, next < rows.count {
            var (room, end) = (keysInRecord + keysOfRow, next)
            while end < rows.count, rows[end].keys.count + keysOfRow <= room {
                room -= rows[end].keys.count + keysOfRow
                end += 1
            }
            let value: JSONValue = [
                "node": .string(node), "seen": .array(rows[next..<end].map { $0.kind.row($0.keys) }),
            ]
            records.append(value.encoded())
            next = end
        }
        return records
    }

    /// Clients that another node tells of; none of what ``records(of:at:most:)`` did not make, and of this node.
    static func read(_ record: [UInt8], at own: String) -> [RolloutTracker.ForeignFetch] {
        guard let document = JSONValue.ifValid(record), let node = document["node"]?.string, node != own else {
            return []
        }
        return (document["seen"]?.array ?? []).flatMap { read($0, of: node, wins: node < own) }
    }

    private static func read(_ row: JSONValue, of node: String, wins: Bool) -> [RolloutTracker.ForeignFetch] {
        guard let scope = row["scope"]?.string.flatMap({ Scope($0.dropFirst()) }),
            let fetched = row["fetched"]?.versionNumber, let active = row["active"]?.versionNumber,
            let keys = row["keys"]?.string.flatMap({ Data(base64Encoded: $0) })
        else { return [] }
        let bytes = [UInt8](keys)
        return stride(from: 0, to: bytes.count - bytes.count % 8, by: 8).map { start in
            RolloutTracker.ForeignFetch(
                key: bytes[start..<start + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }, scope: scope,
                fetched: fetched, active: active, failed: row["failed"]?.versionNumber ?? 0,
                isCounted: row["counted"]?.bool ?? true, isHere: row["here"]?.bool, wins: wins, node: node)
        }
    }
}

extension Scope {
    /// nil unless `text` is `<project>/<namespace>`.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let project = try? ProjectID(String(parts[0])),  // unreadable record: ignored
            let namespace = try? Namespace(String(parts[1]))  // unreadable record: ignored
        else { return nil }
        self.init(project: project, namespace: namespace)
    }
}
