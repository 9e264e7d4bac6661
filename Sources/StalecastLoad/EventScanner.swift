/// Finds in an event stream what counts for a load: complete STALE events, `synced` and heartbeats. Far cheaper than
/// a full parser: whole lines are searched where they lie, only one cut in two by a read is copied. A lone CR is not
/// taken for a line end; Stalecast never sends one.
package struct EventScanner {
    package init() {}

    /// The greatest version of all complete unnamed events so far; 0 before the first.
    package private(set) var newestVersion: Int64 = 0
    /// The event named `synced` was seen complete.
    package private(set) var isSynced = false
    /// Comment lines since `synced`.
    package private(set) var heartbeats = 0
    /// A line was longer than ``maxLineBytes``: this is no stream of ours.
    package private(set) var isBroken = false

    private enum Name { case none, synced, other }

    private static let maxLineBytes = 64 << 10

    /// The event in progress: its name and the version in its data.
    private var name = Name.none
    private var version: Int64 = 0
    /// The beginning of a line whose end is still to come.
    private var partial: [UInt8] = []

    /// Takes the next piece of the stream, cut anywhere.
    package mutating func scan(_ bytes: Bytes) {
        var start = 0
        while let end = bytes.position(of: 0x0A, from: start) {
            let rest = bytes.part(start..<end)
            if partial.isEmpty { line(rest) } else { complete(rest) }
            start = end + 1
        }
        guard start < bytes.count else { return }
        partial.append(contentsOf: bytes[start...])
        if partial.count > Self.maxLineBytes { isBroken = true }
    }

    private mutating func complete(_ rest: Bytes) {
        var whole = partial
        whole.append(contentsOf: rest)
        partial.removeAll(keepingCapacity: false)
        whole.withUnsafeBytes { line($0) }
    }

    private mutating func line(_ bytes: Bytes) {
        let line = bytes.last == 0x0D ? bytes.part(0..<bytes.count - 1) : bytes
        guard let first = line.first else { return dispatch() }
        switch first {
        case UInt8(ascii: ":"): if isSynced { heartbeats += 1 }
        case UInt8(ascii: "d") where line.begins(with: "data:"): version = max(version, line.newestVersion)
        case UInt8(ascii: "e") where line.begins(with: "event:"): name = Self.name(line.part(6..<line.count))
        default: break
        }
    }

    /// An empty line: the event in progress is complete.
    private mutating func dispatch() {
        switch name {
        case .none: newestVersion = max(newestVersion, version)
        case .synced: isSynced = true
        case .other: break
        }
        name = .none
        version = 0
    }

    private static func name(_ value: Bytes) -> Name {
        let text = value.first == 0x20 ? value.part(1..<value.count) : value
        if text.isEmpty { return .none }
        return text.count == 6 && text.begins(with: "synced") ? .synced : .other
    }
}
