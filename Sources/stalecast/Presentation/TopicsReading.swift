package import StalecastWire

/// Topics as `topics` and `status` answer with them:
/// `{"name","scopes","keys","subscribers":{"sse","poll","otherNodes"?}}`, a scope either `demo/firebase` or
/// `{"project","namespace"}`.
package struct TopicsReading {
    private let topics: [JSONValue]

    package init(_ topics: [JSONValue]) { self.topics = topics }

    package func lines(_ palette: Palette, width: Int? = TerminalSize.forTables) -> [String] {
        let isCluster = topics.contains { $0["subscribers"]?["otherNodes"] != nil }
        let elsewhere: [TextTable.Column] = isCluster ? [.right("OTHER NODES")] : []
        var table = TextTable(
            [.left("TOPIC"), .right("STREAMS"), .right("POLLS")] + elsewhere + [.extra("SCOPES"), .extra("KEYS")])
        for topic in topics {
            let subscribers = topic["subscribers"]
            let keys = (topic["keys"]?.array ?? []).compactMap(\.string)
            let counts = [count(subscribers?["sse"]), count(subscribers?["poll"])]
            let others = isCluster ? [count(subscribers?["otherNodes"])] : []
            table.add(
                [topic["name"]?.string ?? "?"] + counts + others + [
                    (topic["scopes"]?.array ?? []).map(Self.scope).joined(separator: ", "),
                    keys.isEmpty ? "all" : keys.joined(separator: ", "),
                ])
        }
        return table.lines(palette, width: width)
    }

    private func count(_ value: JSONValue?) -> String { String(value?.int64 ?? 0) }

    static func scope(_ value: JSONValue) -> String {
        value.string ?? "\(value["project"]?.string ?? "?")/\(value["namespace"]?.string ?? "?")"
    }
}
