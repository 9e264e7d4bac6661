package import StalecastWire

/// Control's `/v1/cluster` as a page for people. Other nodes and etcd wrote some of it.
package struct ClusterReading {
    private let status: JSONValue

    package init(_ status: JSONValue) { self.status = status }

    package func lines(_ palette: Palette, width: Int? = TerminalSize.forTables) -> [String] {
        var lines = [headline(palette), log.printable]
        if let problem = status["problem"]?.string { lines.append(palette.red(problem.printable)) }
        lines += [""] + members.lines(palette, width: width)
        let others = nodes
        if !others.isEmpty { lines += [""] + others.lines(palette, width: width) }
        if let difference { lines.append(palette.yellow(difference)) }
        return lines
    }

    private func headline(_ palette: Palette) -> String {
        let role = status["role"]?.string == "edge" ? "edge" : "node"
        let place = "\(role) \(text("node")) of cluster \(text("name"))".printable
        guard status["ready"]?.bool == true else { return "\(place): \(palette.red("not ready"))" }
        if status["whole"]?.bool == false { return "\(place): \(palette.yellow("ready, versions are still coming"))" }
        guard let seconds = status["unverifiedSeconds"]?.seconds, seconds > Self.usual else {
            return "\(place): \(palette.green("ready"))"
        }
        return "\(place): \(palette.yellow("ready, without word from etcd for \(seconds.inSeconds)"))"
    }

    /// Nodes look each 5 s.
    private static let usual = Duration.seconds(10)

    private var log: String {
        let logMetadata = status["charter"]
        var words = "epoch \(text("epoch")), head \(text("head"))"
        if let newest = status["logHead"]?.string, newest != status["head"]?.string { words += " of \(newest)" }
        if let format = logMetadata?["format"]?.int64, let least = logMetadata?["minimumVersion"]?.int64 {
            words += ", format \(format) (nodes need \(least))"
        }
        if let below = logMetadata?["prunedBelow"]?.int64, below > 1 { words += ", pruned below \(below)" }
        return words + (logMetadata?["frozen"]?.bool == true ? ", frozen: nothing can be published" : "")
    }

    private var members: TextTable {
        TextTable(
            [
                .id("ETCD") { text("endpoint", of: $0) }, .id("VERSION") { text("version", of: $0) },
                .id("ROLE") { $0["isLeader"]?.bool.map { $0 ? "leader" : "follower" } ?? "?" },
                .extra("PROBLEM") { $0["error"]?.string ?? $0.word("finding", "") },
            ], of: status.items("etcd"))
    }

    private var nodes: TextTable {
        TextTable(
            [
                .id("NODE") { text("id", of: $0) }, .id("ROLE") { $0.word("role", "core") },
                .id("VERSION") { $0["goneSeconds"] == nil ? text("version", of: $0) : "" },
                .right("HEAD") { text("head", of: $0) },
                .right("SUBSCRIBERS") { $0["goneSeconds"] == nil ? text("subscribers", of: $0) : "" },
                .right("ETCD") { delay(of: $0) },
                .id("COPY") { state(of: $0) },
                .extra("CONFIGURATION") { String($0.word("configurationHash", "").prefix(12)) },
                .extra("CONTROL") { $0.word("advertise", "") },
            ], of: status.items("nodes") + status.items("gone"))
    }

    private func delay(of node: JSONValue) -> String {
        guard let delay = node["etcdDelaySeconds"]?.seconds else { return "" }
        return delay < .milliseconds(1) ? "< 1 ms" : "\(delay.milliseconds) ms"
    }

    /// State of a node's copy of the log, as this node knows it; `?` where it does not.
    private func state(of node: JSONValue) -> String {
        if let gone = node["goneSeconds"]?.seconds { return "cut off or ended \(gone.inSeconds) ago" }
        // A node that has a problem may not hear what the others tell.
        if status["problem"]?.string != nil, node["id"]?.string != status["node"]?.string { return "?" }
        if let age = node["unverifiedSeconds"]?.seconds { return "not confirmed for \(age.inSeconds)" }
        let newest = status["logHead"]?.int64 ?? status["head"]?.int64 ?? 0
        if let head = node["head"]?.int64, head < newest { return "\(newest - head) behind" }
        // A node of an older program never says that its copy is not confirmed.
        return node["etcdDelaySeconds"] == nil ? "?" : "current"
    }

    /// Difference between nodes that should be alike; nil when they are.
    private var difference: String? {
        // An edge has another hash than a core node, and differs only where it says so.
        let nodes = status.items("nodes").filter { $0["role"]?.string != "edge" || !$0.words("differs").isEmpty }
        var hashes = Set(nodes.compactMap { $0["configurationHash"]?.string })
        if status["role"]?.string == "edge", nodes.contains(where: { !$0.words("differs").isEmpty }) {
            hashes.insert("its own")
        }
        if hashes.count < 2 { return nil }
        let others = nodes.compactMap { node -> String? in
            let parts = node.words("differs")
            return parts.isEmpty ? nil : "\(text("id", of: node)) in \(parts.joined(separator: ", "))"
        }
        let place = others.isEmpty ? "see their files" : "from this one differ \(others.joined(separator: "; "))"
        return "nodes have \(hashes.count) different configurations; \(place)".printable
    }

    private func text(_ member: String, of object: JSONValue? = nil) -> String {
        let value = (object ?? status)[member]
        return value?.string ?? value?.int64.map(String.init) ?? "?"
    }
}
