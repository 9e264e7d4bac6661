package import StalecastWire

/// Control's `/status` as a page for people.
package struct StatusReading {
    private let status: JSONValue
    private let clock: LocalClock
    private let now: Timestamp

    package init(_ status: JSONValue) { self.init(status, clock: .asked, now: .now()) }

    init(_ status: JSONValue, clock: LocalClock, now: Timestamp) {
        (self.status, self.clock, self.now) = (status, clock, now)
    }

    package func lines(_ palette: Palette) -> [String] {
        headline(palette) + ["cursor \(text("cursor").printable)", ""] + scopes(palette) + [""]
            + TopicsReading(status.items("topics")).lines(palette) + [""] + figures
    }

    /// Line with the version that runs there, since when, and its health.
    func headline(_ palette: Palette, width: Int? = nil) -> [String] {
        let reasons = status.words("notReady")
        let degraded = status.words("degraded")
        let worse = degraded.isEmpty ? "" : palette.yellow(", but " + degraded.map(\.printable).joined(separator: "; "))
        let state =
            reasons.isEmpty
            ? palette.green("ready") + worse
            : palette.red("not ready: " + reasons.map(\.printable).joined(separator: "; "))
        let since = text("startedAt")
        let time = Timestamp(since).map { width.map { $0 < 70 } ?? false ? clock.time($0) : clock.date($0) } ?? since
        let daemon = "stalecast \(text("version")), process \(text("pid")), since \(time)"
        let up = age(since, at: now)
        return width.map { $0 < 70 } ?? false
            ? ["stalecast \(text("version")), up \(up)".printable + ": \(state)"]
            : ["\("\(daemon), \(up)".printable): \(state)"]
    }

    func scopes(_ palette: Palette, width: Int? = TerminalSize.forTables) -> [String] {
        func time(_ scope: JSONValue) -> String { scope.word("updateTime", "") }
        let columns: [TextTable.Column] = [
            .left("SCOPE", TopicsReading.scope),
            .right("VERSION") { $0["versionNumber"]?.int64.flatMap { $0 == 0 ? nil : String($0) } ?? "none" },
            .right("AGE") { age(time($0), at: now) },
            .whole("TIME") { Timestamp(time($0)).map(clock.date) ?? time($0) },
            .whole("TYPE") { specified($0["updateType"]) }, .whole("ETAG") { $0.word("etag", "") },
        ]
        return TextTable(columns, of: status.items("scopes")).lines(palette, width: width)
    }

    private var figures: [String] {
        let (edge, store, process) = (status["edge"], status["store"], status["process"])
        let lines: [String?] = [
            "webhooks \(webhooks)",
            "sources  \(sources)",
            "edge     \(list(edge, Self.edgeCounts))",
            access.map { "access   \($0)" },
            "ended    \(counts(edge?["drops"]))",
            "refused  \(refused)",
            "store    \(store?["health"]?.string ?? "?"), \(list(store, ["published", "rolledBack", "sequence"]))",
            "config   \(configuration)",
            "process  memory \(memory), \(list(process, ["descriptors"])), "
                + "CPU \(seconds(process?["cpuSeconds"]))",
        ]
        return lines.compactMap { $0?.printable }
    }

    /// Time when the configuration in force was read, the reason why a newer one is not, and what waits for a restart.
    private var configuration: String {
        let configuration = status["configuration"]
        let loaded = configuration?["loadedAt"]?.string ?? ""
        let time = Timestamp(loaded).map(clock.date) ?? "?"
        let waiting = configuration?.words("waitingForRestart") ?? []
        return "read \(time)" + (waiting.isEmpty ? "" : "; needs a restart for \(waiting.joined(separator: ", "))")
            + (configuration?["problem"]?.string.map { "; a newer one was refused: \($0)" } ?? "")
    }

    /// `3 active, 1 failing`, from the states that `/status` counts.
    var webhooks: String {
        guard let webhooks = status["webhooks"] else { return "none" }
        let states = webhooks["states"] ?? webhooks
        let shown = (states.object?.members ?? []).filter { ($0.value.int64 ?? 0) > 0 }
        return shown.isEmpty ? "none" : shown.map { "\($0.value.text()) \($0.key)" }.joined(separator: ", ")
    }

    /// `2 well, failing: demo/firebase (unreachable)`.
    var sources: String {
        let sources = status.items("sources")
        if sources.isEmpty { return "none" }
        let failing = sources.filter { $0["error"]?["reason"] != nil }.map { source in
            "\(TopicsReading.scope(source)) (\(source["error"]?["reason"]?.string ?? "?"))"
        }
        let well = "\(sources.count - failing.count) well"
        return failing.isEmpty ? well : "\(well), failing: \(failing.joined(separator: ", "))"
    }

    /// Mode in which Edge judges callers, and how many requests it would have refused where it only observes; nil for a
    /// daemon of an older program, which does not say it.
    private var access: String? {
        guard let mode = status["auth"]?["mode"]?.string else { return nil }
        let observed = status["auth"]?["observed"]?.int64 ?? 0
        return mode + (mode == "observe" || observed > 0 ? ", \(observed) requests would have been refused" : "")
    }

    /// Refusals by Edge's reasons, and credentials that were refused at either listener.
    private var refused: String {
        var reasons = status["edge"]?["refused"]?.object ?? [:]
        if let count = status["auth"]?["refused"] { reasons["credentials"] = count }
        return counts(.object(reasons))
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

    private static let edgeCounts = [
        "connections", "streams", "polls", "stalled", "slowReaders", "deliveries", "coalesced",
    ]
    private static let words = [
        "rolledBack": "rolled back", "sequence": "commits in all", "slowReaders": "slow readers",
    ]

    private func counts(_ object: JSONValue?) -> String {
        let members = object?.object?.members ?? []
        let shown = members.filter { $0.value.int64 != 0 }.map { "\($0.key) \($0.value.text())" }
        return shown.isEmpty ? "none" : shown.joined(separator: ", ")
    }

    /// `45 MiB`.
    var memory: String {
        status["process"]?["residentBytes"]?.int64.map { "\(($0 >> 20) + ($0 >> 19 & 1)) MiB" } ?? "?"
    }

    private func seconds(_ number: JSONValue?) -> String { number?.seconds?.inSeconds ?? "?" }
}

extension JSONValue {
    /// A number of seconds, at most a century of them; nil for what is no number.
    package var seconds: Duration? {
        guard case .number(let text) = self, let seconds = Double(text) else { return nil }
        return .seconds(min(max(seconds, -3.2e9), 3.2e9))
    }
}
