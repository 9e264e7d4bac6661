import StalecastWire

/// Control's `/status` as a page for people.
struct StatusReading {
    private let status: JSONValue

    init(_ status: JSONValue) { self.status = status }

    func lines(_ palette: Palette) -> [String] {
        summary(palette) + [""] + scopes(palette) + [""] + TopicTable(status["topics"]?.array ?? []).lines(palette)
            + [""] + figures
    }

    private func summary(_ palette: Palette) -> [String] {
        let reasons = (status["notReady"]?.array ?? []).compactMap(\.string)
        let state =
            reasons.isEmpty
            ? palette.green("ready") : palette.red("not ready: " + reasons.map(\.printable).joined(separator: "; "))
        let daemon = "stalecast \(text("version")), process \(text("pid")), since \(clockTime(text("startedAt")))"
        return ["\(daemon.printable): \(state)", "cursor \(text("cursor").printable)"]
    }

    private func scopes(_ palette: Palette) -> [String] {
        var table = TextTable(.left("SCOPE"), .right("VERSION"), .left("TIME"), .left("TYPE"), .left("ETAG"))
        for scope in status["scopes"]?.array ?? [] {
            let name = "\(scope["project"]?.string ?? "?")/\(scope["namespace"]?.string ?? "?")"
            let version = scope["versionNumber"]?.int64 ?? 0
            table.add(
                name, version == 0 ? "none" : String(version), clockTime(scope["updateTime"]?.string ?? ""),
                specified(scope["updateType"]), scope["etag"]?.string ?? "")
        }
        return table.lines(palette)
    }

    private var figures: [String] {
        let (edge, store, process) = (status["edge"], status["store"], status["process"])
        return [
            "webhooks \(webhooks)",
            "sources  \(sources)",
            "edge     \(list(edge, ["connections", "streams", "polls", "stalled", "deliveries", "coalesced"]))",
            "ended    \(counts(edge?["drops"]))",
            "refused  \(counts(edge?["refused"]))",
            "store    \(store?["health"]?.string ?? "?"), \(list(store, ["published", "rolledBack", "sequence"]))",
            "process  memory \(mebibytes(process?["residentBytes"])), \(list(process, ["descriptors"])), "
                + "CPU \(seconds(process?["cpuSeconds"]))",
        ].map(\.printable)
    }

    /// `3 active, 1 failing`, from the states that `/status` counts.
    private var webhooks: String {
        guard let webhooks = status["webhooks"] else { return "none" }
        let states = webhooks["states"] ?? webhooks
        let shown = (states.object?.members ?? []).filter { ($0.value.int64 ?? 0) > 0 }
        return shown.isEmpty ? "none" : shown.map { "\($0.value.text()) \($0.key)" }.joined(separator: ", ")
    }

    /// `2 well, failing: demo/firebase (unreachable)`.
    private var sources: String {
        let sources = status["sources"]?.array ?? []
        if sources.isEmpty { return "none" }
        let failing = sources.filter { $0["error"]?["reason"] != nil }.map { source in
            "\(source["project"]?.string ?? "?")/\(source["namespace"]?.string ?? "?") "
                + "(\(source["error"]?["reason"]?.string ?? "?"))"
        }
        let well = "\(sources.count - failing.count) well"
        return failing.isEmpty ? well : "\(well), failing: \(failing.joined(separator: ", "))"
    }

    private func text(_ member: String) -> String {
        let value = status[member]
        return value?.string ?? value?.text() ?? "?"
    }

    /// `streams 3, polls 0`; what the answer does not have is left out.
    private func list(_ object: JSONValue?, _ members: [String]) -> String {
        members.compactMap { member in
            object?[member].map { "\(Self.words[member] ?? member) \($0.string ?? $0.text())" }
        }.joined(separator: ", ")
    }

    private static let words = ["rolledBack": "rolled back", "sequence": "commits in all"]

    private func counts(_ object: JSONValue?) -> String {
        let members = object?.object?.members ?? []
        let shown = members.filter { $0.value.int64 != 0 }.map { "\($0.key) \($0.value.text())" }
        return shown.isEmpty ? "none" : shown.joined(separator: ", ")
    }

    private func mebibytes(_ bytes: JSONValue?) -> String {
        bytes?.int64.map { "\(($0 + (1 << 19)) >> 20) MiB" } ?? "?"
    }

    private func seconds(_ number: JSONValue?) -> String {
        guard case .number(let text) = number, let seconds = Double(text) else { return "?" }
        return Duration.seconds(seconds).inSeconds
    }
}
