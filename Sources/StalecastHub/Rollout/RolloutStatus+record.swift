package import StalecastWire

/// A version's way as the store keeps it: sums and times in at most 300 bytes.
extension RolloutStatus {
    package var record: JSONValue {
        let counts = [
            streams.streams, streams.told, streams.left, streams.joined, clients.audience, clients.fetched,
            clients.active, clients.failed, clients.left, clients.unidentifiedStreams, clients.weight,
            fetches.answers, fetches.peakPerSecond,
        ]
        let times = [sent, fetched, active].map { stageTimes in
            JSONValue.array(
                [stageTimes.t50, stageTimes.t95, stageTimes.t99, stageTimes.last].map {
                    $0.map { .int($0 / 1_000_000) } ?? .null
                })
        }
        var record: JSONObject = [
            "p": .string(previous.map { "\($0)" } ?? ""), "at": .int(announceTime.microseconds),
            "s": .string((state.isDone ? .converged : state).rawValue), "r": .bool(isPartial),
            "w": .int(fetches.windowMs), "n": .array(counts.map { .int($0) }), "t": .array(times),
        ]
        // Daemons of before know four states.
        if state.isDone, state != .converged { record["z"] = .string(state.rawValue) }
        // Release 0.2.0 reads no other length of "n".
        if clients.isLostKnown { record["l"] = .int(clients.lost) }
        return .object(record)
    }

    /// nil for what is no record.
    package init?(record: JSONValue, of version: VersionNumber) {
        guard let at = record["at"]?.int64, at >= 0,
            let state = (record["z"] ?? record["s"])?.string.flatMap(State.init),
            let counts = record["n"]?.array?.map({ Self.count($0) }), counts.count == 13,
            let times = record["t"]?.array, times.count == 3
        else { return nil }
        self.init(
            version: version, previous: record["p"]?.string.flatMap { VersionNumber($0) },
            announceTime: Timestamp(microseconds: at), state: state, isPartial: record["r"]?.bool ?? false)
        fetches.windowMs = min(Self.count(record["w"]), 86_400_000)
        ageSeconds = Double(max(0, (Timestamp.now().microseconds - at) / 1000)) / 1000
        (streams.streams, streams.left, streams.joined) = (counts[0], counts[2], counts[3])
        streams.backlogged = max(0, counts[0] - counts[1] - counts[2])
        (clients.audience, clients.fetched, clients.active) = (counts[4], counts[5], counts[6])
        (clients.failed, clients.left, clients.unidentifiedStreams) = (counts[7], counts[8], counts[9])
        clients.lost = min(record["l"].map(Self.count) ?? .max, clients.left)
        clients.isLostKnown = record["l"] != nil || clients.left == 0
        clients.weight = max(1, counts[10])
        (fetches.answers, fetches.peakPerSecond) = (counts[11], counts[12])
        // Clients that came back said what they have, or nothing.
        if isPartial { clients.unknown = clients.behind }
        let stageTimes = times.map { StageTimes(milliseconds: $0.array?.map(\.int64) ?? []) }
        (sent, fetched, active) = (stageTimes[0], stageTimes[1], stageTimes[2])
        isFromMemory = false
    }

    /// Count from a record, clamped: a record may hold any number, and sums of counts must not overflow.
    static func count(_ value: JSONValue?) -> Int { Int(min(max(value?.int64 ?? 0, 0), 1 << 40)) }
}

extension StageTimes {
    fileprivate init(milliseconds: [Int64?]) {
        let times = (0..<4).map { place -> UInt64? in
            guard place < milliseconds.count, let time = milliseconds[place] else { return nil }
            return UInt64(clamping: time).multipliedReportingOverflow(by: 1_000_000).partialValue
        }
        self.init(t50: times[0], t95: times[1], t99: times[2], last: times[3])
    }
}
