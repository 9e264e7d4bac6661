package import StalecastWire

/// Progress of a version, from `GET remoteConfig/propagation`, in words and bars.
package struct PropagationReading {
    private let json: JSONValue

    package init(_ json: JSONValue) { self.json = json }

    var version: Int64 { json["versionNumber"]?.int64 ?? 0 }
    private func streams(_ name: String) -> Int64 { json["streams"]?[name]?.int64 ?? 0 }
    private func clients(_ name: String) -> Int64 { json["clients"]?[name]?.int64 ?? 0 }
    func isOfClients(_ stage: String) -> Bool { stage == "fetched" || stage == "active" }

    private func count(_ stage: String) -> Int64 { isOfClients(stage) ? clients(stage) : streams(stage) }
    /// Number that the stage's share is of: clients that left after they were told count.
    private func expected(_ stage: String) -> Int64 {
        isOfClients(stage)
            ? clients("audience") - clients("left") + lost(stage) : streams("audience") - streams("left")
    }
    func behind(_ stage: String) -> Int64 { max(0, expected(stage) - lost(stage) - count(stage) - unknown(stage)) }

    /// Whether all of the audience left before it was told.
    func isDeserted(_ stage: String) -> Bool {
        expected(stage) == 0 && (isOfClients(stage) ? clients("audience") : streams("audience")) > 0
    }

    /// Clients that left after they were told, without the version; all that left where the daemon does not say.
    private func lost(_ stage: String) -> Int64 { isOfClients(stage) ? clients(isVague ? "left" : "lost") : 0 }

    /// Clients left, and release 0.2.0 or before, a node's or that of the store's row, did not count whether they were
    /// told: shares are the least that they can be.
    private var isVague: Bool { json["clients"]?["lost"] == nil && clients("left") > 0 }

    /// Clients that came back after a restart of the daemon and have not said what they have.
    private func unknown(_ stage: String) -> Int64 { isOfClients(stage) ? clients("unknown") : 0 }

    /// The stages a client can be in.
    private var stages: [String] {
        ["sent"] + (clients("audience") > 0 ? ["fetched"] : []) + (clients("active") > 0 ? ["active"] : [])
    }

    /// `sent 1,200 of 1,203 streams; fetched 650 of 800 clients`.
    var line: String { line(of: stages) }

    private func line(of stages: [String]) -> String {
        stages.map { stage in
            let noun = isOfClients(stage) ? "clients" : "streams"
            return
                "\(stage) \(PublishCounts.grouped(count(stage))) of \(PublishCounts.grouped(expected(stage))) \(noun)"
                + departures(stage)
        }.joined(separator: "; ")
    }

    private static let width = 30

    /// A bar for each stage.
    func bars(_ palette: Palette) -> [String] {
        stages.map { stage in
            let (count, expected) = (count(stage), expected(stage))
            let noun = isOfClients(stage) ? "clients" : "streams"
            let name = stage + String(repeating: " ", count: 8 - stage.count)
            guard expected > 0 else { return "\(name) no \(noun) to wait for" }
            let filled = Int(Double(min(count, expected)) / Double(expected) * Double(Self.width))
            let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: Self.width - filled)
            let doubt = unknown(stage) > 0 ? ", \(PublishCounts.grouped(unknown(stage))) unknown since the restart" : ""
            return "\(name) \(count >= expected ? palette.green(bar) : bar) "
                + "\(PublishCounts.grouped(count)) of \(PublishCounts.grouped(expected)) \(noun)\(doubt)"
                + departures(stage)
        }
    }

    /// `; 6 left after they were told`, or nothing.
    private func departures(_ stage: String) -> String {
        let lost = lost(stage)
        if isVague, lost > 0 {
            return "; \(PublishCounts.grouped(lost)) left, and release 0.2.0 did not count whether after being told"
        }
        return lost == 0 ? "" : "; \(PublishCounts.grouped(lost)) left after \(lost == 1 ? "it was" : "they were") told"
    }

    /// `99.2 % of 803 clients have version 17 (50 % after 0.4 s, 99 % after 3.9 s)`.
    package func headline(_ stage: String) -> String {
        let (count, expected) = (count(stage), expected(stage))
        let noun = isOfClients(stage) ? "client" : "stream"
        guard expected > 0 else {
            return isDeserted(stage)
                ? "all \(noun)s left before they were told of version \(version)"
                : "no \(noun) waits for version \(version)"
        }
        let share = Double(count) / Double(expected) * 100
        if unknown(stage) == expected {
            return
                "how many of \(PublishCounts.grouped(expected)) clients have version \(version) is unknown since the "
                + "restart"
        }
        let has = ["sent": "been told of", "received": "received", "active": "activated"][stage] ?? "fetched"
        let times = [("t50", "50 %"), ("t99", "99 %")].compactMap { key, share in
            seconds(json["times"]?[stage]?[key]).map { "\(share) after \($0)" }
        }
        return
            (isVague && isOfClients(stage) ? "at least " : "")
            + "\((share * 10).rounded(.down) / 10) % of \(PublishCounts.grouped(expected)) \(noun)\(expected == 1 ? "" : "s") "
            + "\(expected == 1 ? "has" : "have") \(has) version \(version)"
            + (times.isEmpty ? "" : " (\(times.joined(separator: ", ")))")
            + (unknown(stage) > 0
                ? "; of \(PublishCounts.grouped(unknown(stage))) it is unknown since the restart" : "")
            + departures(stage)
    }

    /// `0.4 s`, or `12 ms`; nil for null.
    private func seconds(_ value: JSONValue?) -> String? {
        guard case .number(let text)? = value, let seconds = Double(text) else { return nil }
        return seconds < 1 ? "\(Int((seconds * 1000).rounded())) ms" : "\((seconds * 10).rounded() / 10) s"
    }

    /// Lines for people: state, bars, times, and the curve.
    package func lines(_ palette: Palette, scope: String, width: Int) -> [String] {
        let state = json.word("state")
        let age = seconds(json["ageSeconds"]).map { ", announced \($0) ago" } ?? ""
        var lines = ["\(palette.bold("version \(version)")) of \(scope)\(age): \(state)\(stage)"]
        if !stage.isEmpty {
            lines.append(
                "released in stages: the other clients keep the version before; `stalecast release` shows more")
        }
        if json["partial"]?.bool == true {
            lines.append("the daemon began anew meanwhile: counted from reconnects, without times")
            lines += beforeRestart
        }
        lines += bars(palette)
        for stage in stages where expected(stage) > 0 { lines.append(headline(stage)) }
        lines += remarks
        return lines + curve(width: width)
    }

    /// ` at its stage of 10 %` while the version's release holds clients back; else nothing.
    package var stage: String {
        guard let release = json["release"], release["versionNumber"]?.int64 == version,
            ["PENDING", "RAMPING", "PAUSED"].contains(release.word("state")),
            let percent = release["percent"]?.text(), percent != "100"
        else { return "" }
        return " at its stage of \(percent) %" + (release.word("state") == "PAUSED" ? ", paused" : "")
    }

    /// Lines about the state that the process before this one wrote at its end.
    private var beforeRestart: [String] {
        guard let before = json["beforeRestart"] else { return [] }
        let reading = PropagationReading(before)
        // A process that had begun anew itself counted from reconnects: at its end the streams that it knew were gone, and
        // of clients that had said nothing it knew no more than this one.
        let line = reading.line(of: reading.stages.filter { reading.expected($0) > reading.unknown($0) })
        return line.isEmpty ? [] : ["when it stopped: \(line)"]
    }

    private var remarks: [String] {
        let backlog =
            json.word("state") == "SUPERSEDED" ? "got only a newer version" : "too slow to read it at once, told later"
        let counts = [
            (streams("backlogged"), "stream", backlog),
            (streams("left"), "stream", "ended before it was told"),
            (clients("failed"), "client", "reported a failure"),
            (clients("left") - lost("fetched"), "client", "left before being told"),
            (clients("unidentifiedStreams"), "stream", "gave no client id"),
        ]
        return counts.filter { $0.0 > 0 }.map { count, noun, what in
            "\(PublishCounts.grouped(count)) \(count == 1 ? noun : noun + "s") \(what)"
        }
    }

    /// Counts over the logarithm of the time.
    private func curve(width: Int) -> [String] {
        guard let at = json["curve"]?["at"]?.array, let end = at.last.flatMap({ seconds($0) }), at.count > 1 else {
            return []
        }
        return stages.compactMap { stage in
            let values = (json["curve"]?[stage]?.array ?? []).map { Double($0.int64 ?? 0) }
            guard (values.last ?? 0) > 0 else { return nil }
            let name = stage + String(repeating: " ", count: 8 - stage.count)
            return "\(name) \(Sparkline.text(values, width: max(8, width - 24)))  1 ms to \(end)"
        }
    }
}
