package import StalecastWire

/// Answers of `/status`, one after the other, and what they say together: rates, shares, curves.
package struct TopReading {
    /// Events between two answers, and the state at the second.
    package struct Sample {
        package let status: JSONValue
        /// Each second.
        package let deliveries: Double
        package let fetches: Double
        package let webhooks: Double
        /// Milliseconds from a publish to the socket of a told client, on average; nil when none was told.
        package let lag: Double?
        /// Share of one processor, in percent.
        package let cpu: Double
        package let streams: Int64
    }

    private static let capacity = 500
    private var last: (status: JSONValue, seconds: Double)?
    package private(set) var samples: [Sample] = []

    package init() {}

    /// Takes an answer that came at a monotonic time, in seconds. Of the first one nothing can be said yet.
    package mutating func take(_ status: JSONValue, at seconds: Double) {
        defer { last = (status, seconds) }
        guard let before = last, seconds > before.seconds else { return }
        let old = before.status
        let span = seconds - before.seconds
        // A restarted daemon counts from 0.
        func rise(_ pick: (JSONValue) -> JSONValue?) -> Double {
            max(0, Self.number(pick(status)) - Self.number(pick(old)))
        }
        let written = rise { $0["edge"]?["written"]?["count"] }
        let lag = written > 0 ? rise { $0["edge"]?["written"]?["seconds"] } / written * 1000 : nil
        samples.append(
            Sample(
                status: status, deliveries: rise { $0["edge"]?["deliveries"] } / span,
                fetches: rise { $0["fetch"]?["answered"] } / span,
                webhooks: rise { $0["webhooks"]?["delivered"] } / span, lag: lag,
                cpu: rise { $0["process"]?["cpuSeconds"] } / span * 100, streams: status["edge"]?["streams"]?.int64 ?? 0
            ))
        if samples.count > Self.capacity { samples.removeFirst() }
    }

    private static func number(_ value: JSONValue?) -> Double { value.flatMap { Double($0.text()) } ?? 0 }

    // MARK: For people

    package func lines(_ palette: Palette, width: Int, at now: Timestamp, clock: LocalClock) -> [String] {
        guard let sample = samples.last else { return [] }
        let status = StatusReading(sample.status, clock: clock, now: now)
        let edge = sample.status["edge"]
        let lag = sample.lag.map { "told \(Self.short($0)) ms after the publish" } ?? ""
        let slow = [("stalled", "stalled"), ("slowReaders", "slow readers")].compactMap { member, words in
            edge?[member]?.int64.flatMap { $0 > 0 ? ", \(words) \($0)" : nil }
        }.joined()
        let rows: [(String, String, [Double], String)] = [
            (
                "streams", PublishCounts.grouped(sample.streams), samples.map { Double($0.streams) },
                "polls \(edge?["polls"]?.int64 ?? 0)" + slow
            ),
            ("deliveries", Self.short(sample.deliveries) + "/s", samples.map(\.deliveries), lag),
            ("fetches", Self.short(sample.fetches) + "/s", samples.map(\.fetches), ""),
            ("webhooks", Self.short(sample.webhooks) + "/s", samples.map(\.webhooks), status.webhooks),
            ("CPU", Self.short(sample.cpu) + " %", samples.map(\.cpu), "memory \(status.memory)"),
        ]
        let curve = max(5, min(40, width - 50))
        let curves = rows.map { name, value, values, remark in
            // A full step is all of a processor.
            let line = Sparkline.text(values, width: curve, least: name == "CPU" ? 100 : 0)
            let gap = String(repeating: " ", count: curve - line.count)
            let number = String(repeating: " ", count: max(0, 9 - value.count)) + value
            let head = name + String(repeating: " ", count: 11 - name.count)
            return Self.cut("\(head)\(number)  \(line)\(gap)  \(remark)", to: width)
        }
        return status.headline(palette, width: width) + [""] + curves + ["sources    \(status.sources)".printable, ""]
            + status.scopes(palette, width: width) + [""]
            + TopicsReading(sample.status.items("topics")).lines(palette, width: width)
    }

    private static func cut(_ line: String, to width: Int) -> String {
        let line = line.trimmedAtEnd
        return line.count > width ? line.prefix(max(1, width - 1)) + "…" : line
    }

    /// `850`, `3.1`.
    private static func short(_ number: Double) -> String {
        number < 9.95 ? "\((number * 10).rounded() / 10)" : PublishCounts.grouped(Int64(min(number, 1e15).rounded()))
    }

    // MARK: For scripts

    /// The newest sample; `lagMs` is missing when no client was told.
    package var json: JSONValue? {
        samples.last.map { sample in
            let (edge, process) = (sample.status["edge"], sample.status["process"])
            let sources = sample.status.items("sources")
            return [
                "ready": sample.status["ready"] ?? .null, "streams": .int(sample.streams), "polls": edge?["polls"],
                "stalled": edge?["stalled"], "slowReaders": edge?["slowReaders"],
                "deliveriesPerSecond": .double(sample.deliveries), "fetchesPerSecond": .double(sample.fetches),
                "webhooksPerSecond": .double(sample.webhooks), "lagMs": sample.lag.map(JSONValue.double),
                "cpuPercent": .double(sample.cpu), "residentBytes": process?["residentBytes"],
                "webhooks": sample.status["webhooks"]?["states"],
                "sources": [
                    "well": .int(sources.count { $0["error"] == nil }),
                    "failing": .int(sources.count { $0["error"] != nil }),
                ],
            ]
        }
    }
}
