package import StalecastWire

/// Bytes that each scope's versions brought into the log within the last hour, in which nothing leaves the log: one
/// scope must not fill it for all. Counted unpacked, by what this node has applied since it began; times are of a clock
/// that only goes forward.
package struct LogBudget: Sendable {
    /// Bytes of one scope in an hour: a quarter of etcd's default quota.
    package static let most = 512 << 20
    private static let minutes: Int64 = 60

    private struct Minute: Sendable {
        let number: Int64
        var bytes: Int
    }

    /// The entries of each scope, at most one for each minute of the last hour.
    private var spent: [Scope: [Minute]] = [:]

    package init() {}

    package mutating func note(_ bytes: Int, of scope: Scope, now: Duration) {
        let number = now.components.seconds / 60
        var minutes = (spent[scope] ?? []).filter { $0.number > number - Self.minutes }
        if minutes.last?.number != number { minutes.append(Minute(number: number, bytes: 0)) }
        minutes[minutes.count - 1].bytes += bytes
        spent[scope] = minutes
    }

    package func hasRoom(for bytes: Int, of scope: Scope, now: Duration) -> Bool {
        let first = now.components.seconds / 60 - Self.minutes
        let sum = (spent[scope] ?? []).reduce(0) { $0 + ($1.number > first ? $1.bytes : 0) }
        return sum + bytes <= Self.most
    }
}

extension LogEntry {
    /// The size of its content, unpacked.
    var contentBytes: Int {
        switch content {
        case .inline(let content): content.count
        case .beside(let key): key.size
        case .absent: 0
        }
    }
}
