package import StalecastWire

/// A release in stages, as `GET remoteConfig/release` says it, in words.
package struct ReleaseReading {
    private let json: JSONValue

    package init(_ json: JSONValue) { self.json = json }

    var document: JSONValue { json }
    package var version: Int64 { json["versionNumber"]?.int64 ?? 0 }
    var base: Int64 { json["baseVersionNumber"]?.int64 ?? 0 }
    package var state: String { json.word("state") }
    var isPaused: Bool { state == "PAUSED" }
    /// A state that only a newer server knows is open: it may still go on.
    package var isOpen: Bool { !["RELEASED", "ROLLED_BACK", "SUPERSEDED"].contains(state) }

    package var events: [Event] { json.items("events").map(Event.init) }

    /// Share of the clients that were told, also after its end.
    var told: String { Self.percent(events.last?.percent ?? json["percent"]) }

    private var successor: String {
        json["successorVersionNumber"]?.string.map { "version \($0.printable)" } ?? "another version"
    }

    /// `0.25 %`.
    static func percent(_ value: JSONValue?) -> String {
        guard case .number(let text)? = value, let number = Double(text), number.magnitude < 1e6 else { return "? %" }
        return (number == number.rounded() ? "\(Int64(number))" : "\(number)") + " %"
    }

    /// Column with the value, to the right of another, with its gap.
    static func column(_ value: JSONValue?) -> String {
        let text = percent(value)
        return String(repeating: " ", count: max(0, 7 - text.count)) + text + "  "
    }

    // MARK: What comes next

    /// `next step in 4m`, without a capital; empty where no step is due.
    package func next(at now: Timestamp = .now()) -> String {
        let time = json.word("nextStepAt", "")
        let moment = Self.moment(time, now)
        switch state {
        case "BAKING": return "released \(moment), unless it is taken back"
        case "PAUSED", "RELEASED", "ROLLED_BACK", "SUPERSEDED": return ""
        default: return time.isEmpty ? "waits for `stalecast release promote --to-next`" : "next step \(moment)"
        }
    }

    /// `in 5m`, rounded to the nearest unit, so that 4m 59s is not shown as 4m; `now` for a past time, or for none.
    private static func moment(_ time: String, _ now: Timestamp) -> String {
        let isFar = age(time, at: now).hasPrefix("in ") && !age(time, at: now).hasSuffix("s")
        let distance = age(time, at: isFar ? Timestamp(microseconds: now.microseconds - 29_000_000) : now)
        return distance.hasPrefix("in ") ? distance : "now"
    }

    /// Advice with the commands that are possible now; nil when it is over.
    package var advice: String? {
        guard isOpen else { return nil }
        let isWhole = told == "100 %"
        let others =
            isWhole
            ? "`stalecast release rollback` takes it back."
            : "`stalecast release promote` tells all clients now, with --to-next those of the next stage, "
                + "`stalecast release rollback` takes it back."
        return (isPaused ? "`stalecast release resume` lets it go on, " : "`stalecast release pause` stops it here, ")
            + others
    }

    /// Clients that were told and what came of it, the most telling figure first; empty where the daemon says none.
    package var figures: [String] {
        var figures: [String] = []
        if let clients = json["clients"] {
            figures = ["told", "fetched", "failed"].map {
                "\($0) \(PublishCounts.grouped(clients[$0]?.int64 ?? 0))"
            }
        }
        if let loss = json.items("gates").first(where: { $0.word("name") == "loss" }), let told = loss["told"] {
            figures.append("lost \(Self.percent(told)), others \(Self.percent(loss["untold"]))")
        }
        return figures
    }

    // MARK: As a whole

    /// `paused at 10 % by key:ops: too many crashes`.
    package var situation: String {
        switch state {
        case "PENDING": return "has not begun"
        case "RAMPING": return "is at \(told)"
        case "PAUSED": return "is paused at \(told)\(cause(of: "PAUSED"))"
        case "BAKING": return "is at \(told), in its bake time"
        case "RELEASED": return "is over: all clients are told"
        case "ROLLED_BACK":
            return
                "was rolled back at \(told)\(cause(of: "ROLLED_BACK")); \(successor) has the content of version \(base)"
        case "SUPERSEDED": return "ended at \(told): \(successor) took its place"
        default: return "is \(state.lowercased().printable)"
        }
    }

    private func cause(of kind: String) -> String { events.last { $0.kind == kind }?.cause ?? "" }

    /// `the release of version 18 is at 10 %; next step in 4m`.
    package func sentence(at now: Timestamp = .now()) -> String {
        let next = next(at: now)
        return "the release of version \(version) \(situation)" + (next.isEmpty ? "" : "; \(next)")
    }

    /// Lines for people: state, stages, gates, log.
    package func lines(
        _ palette: Palette, scope: String, at now: Timestamp = .now(), width: Int? = TerminalSize.forTables
    ) -> [String] {
        let next = next(at: now)
        var lines = [
            "\(palette.bold("version \(version)")) of \(scope), over version \(base): \(paint(situation, palette))"
        ]
        if !next.isEmpty { lines.append(next + (json["nextStepAt"]?.string.map { " (\(clockTime($0)))" } ?? "")) }
        if !figures.isEmpty { lines.append("clients with an id: " + figures.joined(separator: ", ")) }
        lines += [""] + stages(at: now).lines(palette, width: width)
        let gates = gates
        if !gates.isEmpty { lines += [""] + gates.lines(palette, width: width) }
        lines += [""] + log(at: now).lines(palette, width: width)
        return lines + (advice.map { ["", $0.wrapped(to: width)] } ?? [])
    }

    private func paint(_ text: String, _ palette: Palette) -> String {
        switch state {
        case "RELEASED": palette.green(text)
        case "PAUSED": palette.yellow(text)
        case "ROLLED_BACK": palette.red(text)
        default: text
        }
    }

    private func stages(at now: Timestamp) -> TextTable {
        TextTable(
            [
                .right("STAGE") { Self.percent($0["percent"]) },
                .left("REACHED") { clockTime($0.word("reachedAt", "-")) },
                .right("AGE") { age($0.word("reachedAt", ""), at: now) },
            ], of: json.items("stages"))
    }

    /// Table of the limits that stop the release by themselves, where the daemon reports them.
    private var gates: TextTable {
        func figure(_ member: String) -> TextTable.Column.Cell {
            { gate in
                guard let value = gate[member], !value.isNull else { return "" }
                // Prometheus answers in a unit of its own.
                return gate.word("name") == "prometheus" ? value.text() : Self.percent(value)
            }
        }
        return TextTable(
            [
                .id("GATE") { $0.word("name") },
                .left("VERDICT") { $0.word("verdict").lowercased().replacing("_", with: " ") },
                .right("VALUE", figure("value")), .right("LIMIT", figure("limit")), .spare("TOLD", figure("told")),
                .spare("UNTOLD", figure("untold")),
                .spare("OF") { $0["count"]?.int64.map(PublishCounts.grouped) ?? "" },
                .extra("DETAIL") { $0.word("detail", "") },
            ], of: json.items("gates"))
    }

    private func log(at now: Timestamp) -> TextTable {
        TextTable(
            [
                .whole("TIME") { $0.time("at") }, .right("AGE") { age($0.word("at", ""), at: now) },
                .left("EVENT") { Event($0).name }, .right("STAGE") { Self.percent($0["percent"]) },
                .left("BY") { $0.word("by", "") }, .extra("REASON") { $0.word("reason", "") },
            ], of: json.items("events"))
    }
}

extension ReleaseReading {
    package struct Event: Equatable {
        private let json: JSONValue

        package init(_ json: JSONValue) { self.json = json }

        var kind: String { json.word("kind") }
        var by: String { json.word("by", "") }
        var percent: JSONValue? { json["percent"] }
        var reason: String { json.word("reason", "") }
        /// `rolled back`.
        var name: String { kind.lowercased().replacing("_", with: " ") }

        /// ` by key:ops: too many crashes`; nothing of what the clock did.
        var cause: String {
            let author = by.isEmpty || by == "schedule" ? "" : " by \(by.printable)"
            return author + (reason.isEmpty ? "" : ": \(reason.printable)")
        }

        /// `     10 %  PAUSED by key:ops: too many crashes`.
        package func line(_ palette: Palette) -> String {
            let words =
                switch kind {
                case "BEGAN": "told"
                case "ADVANCED": "told" + cause
                case "PAUSED": palette.yellow("PAUSED") + cause
                case "ROLLED_BACK": palette.red("ROLLED BACK") + cause
                case "RELEASED": palette.green("released")
                default: name.printable + cause
                }
            return ReleaseReading.column(percent) + words
        }
    }
}

/// Lines about a release as it goes, each event once.
package struct ReleaseProgress {
    private var last: ReleaseReading.Event?

    package init() {}

    /// - Returns: a line for each event since the last call; the newest also says what comes next.
    package mutating func take(
        _ reading: ReleaseReading, _ palette: Palette, at now: Timestamp = .now()
    ) -> [String] {
        let events = reading.events
        let start = last.flatMap { events.lastIndex(of: $0) }.map { $0 + 1 } ?? 0
        last = events.last ?? last
        var lines = events[start...].map { $0.line(palette) }
        let next = reading.next(at: now)
        if let end = lines.indices.last, !next.isEmpty { lines[end] += "; \(next)" }
        return lines
    }
}
