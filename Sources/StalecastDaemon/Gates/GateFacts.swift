package import StalecastHub
package import StalecastStore
package import StalecastWire

/// Facts that decide the gates of one release.
package struct GateFacts: Sendable {
    package var clients = ReleaseClients()
    /// nil while streams are not compared.
    package var loss: LossGate.Verdict?
    /// Answer of Prometheus; nil before the first.
    package var prometheus: GateProbe?
    /// Answer of the URL; nil before the first.
    package var url: GateProbe?

    package init() {}

    /// Fewest clients for a share to count, and fewest failures: fewer may be chance.
    package static let (minClients, minFailures) = (5, 3)
    /// Fewest fetches for the share of refused ones to count.
    package static let minFetches = 20
    /// Bad answers in a row that trip the URL's gate.
    package static let maxBadAnswers = 3
}

/// Newest answer of a gate that asks another server.
package enum GateProbe: Sendable, Hashable {
    case value(Double)
    /// The URL answered 200.
    case good
    /// - Parameter inRow: bad answers since the last good one.
    case bad(inRow: Int, String)
    /// No figure, and why.
    case unknown(String)
}

extension ReleasePolicy.Gates {
    /// Judges each gate that is on.
    package func readings(_ facts: GateFacts) -> [GateReading] {
        let clients = facts.clients
        return [
            failed.map { Self.share("failed", clients.failed, of: clients.fetched, $0, "clients fetched it") },
            fetchErrors.map { gate in
                Self.share(
                    "fetchErrors", clients.errors, of: clients.answers + clients.errors, gate, "fetches came",
                    least: GateFacts.minFetches)
            },
            silent.map { Self.share("silent", clients.silent, of: clients.told, $0, "clients had the time to fetch") },
            loss.map { Self.loss(facts.loss, $0) },
            prometheus.map { Self.prometheus(facts.prometheus, $0) },
            url.map { _ in Self.url(facts.url) },
        ].compactMap(\.self)
    }

    private static func share(
        _ name: String, _ count: Int, of all: Int, _ gate: ReleasePolicy.Gate, _ noun: String,
        least: Int = GateFacts.minClients
    ) -> GateReading {
        let value = all == 0 ? nil : Double(count) * 100 / Double(all)
        let limit = Double(gate.limit) / 100
        var reading = GateReading(name, .ok, value: value, limit: limit, count: all)
        if all < least {
            reading.verdict = .tooLittle
            reading.detail = "\(all) \(noun); \(least) are needed"
        } else if let value, value > limit, count >= GateFacts.minFailures {
            reading.verdict = .tripped
            reading.detail = "\(count) of \(all)"
        }
        return reading
    }

    private static func loss(_ verdict: LossGate.Verdict?, _ gate: ReleasePolicy.Gate) -> GateReading {
        var reading = GateReading("loss", .tooLittle, limit: Double(gate.limit) / 100)
        func show(_ told: Double, _ untold: Double, _ addresses: Int) {
            reading.value = (told - untold) * 100
            (reading.told, reading.untold, reading.count) = (told * 100, untold * 100, addresses)
        }
        switch verdict {
        case nil: reading.detail = "streams are not compared yet"
        case .tooLittle(let addresses):
            reading.count = addresses
            reading.detail = "\(addresses) told addresses; \(LossGate.minAddresses) of either kind are needed"
        case .quiet(let told, let untold, let addresses):
            reading.verdict = .ok
            show(told, untold, addresses)
        case .harm(let told, let untold, let addresses, _):
            reading.verdict = .tripped
            show(told, untold, addresses)
            reading.detail =
                "told addresses lost \(percent(told)) of their streams, the others \(percent(untold))"
        }
        return reading
    }

    private static func percent(_ share: Double) -> String { "\((share * 1000).rounded() / 10) %" }

    private static func prometheus(_ probe: GateProbe?, _ gate: ReleasePolicy.Query) -> GateReading {
        var reading = GateReading("prometheus", .tooLittle, limit: gate.limit)
        switch probe {
        case .value(let value):
            reading.value = value
            reading.verdict = value > gate.limit ? .tripped : .ok
            if value > gate.limit { reading.detail = "the query gives \(value)" }
        case .bad(_, let why), .unknown(let why): reading.detail = why
        case .good, nil: reading.detail = "not asked yet"
        }
        return reading
    }

    private static func url(_ probe: GateProbe?) -> GateReading {
        var reading = GateReading("url", .tooLittle)
        switch probe {
        case .good: reading.verdict = .ok
        case .bad(let inRow, let why):
            reading.detail = why
            if inRow >= GateFacts.maxBadAnswers { reading.verdict = .tripped }
        case .unknown(let why): reading.detail = why
        case .value, nil: reading.detail = "not asked yet"
        }
        return reading
    }

    package func onTrip(_ name: String) -> ReleasePolicy.OnTrip {
        let gates = [
            "failed": failed?.onTrip, "fetchErrors": fetchErrors?.onTrip, "silent": silent?.onTrip,
            "loss": loss?.onTrip, "prometheus": prometheus?.onTrip, "url": url?.onTrip,
        ]
        return gates[name].flatMap(\.self) ?? .pause
    }
}

/// Decision that the gates ask for.
package enum GateDecision: Sendable, Hashable {
    /// The due step may happen.
    case goOn
    case pause(GateReading)
    case rollBack(GateReading)
}

extension Release {
    /// Whether a gate stopped the release for the same reason since its newest stage. While it is open, an operator
    /// overruled that.
    private func hasStopped(_ gate: GateReading) -> Bool {
        let start = events.lastIndex { [.began, .advanced, .promoted].contains($0.kind) } ?? events.startIndex
        return events[start...].contains { event in
            event.kind == .paused && event.by == Self.gatePrefix + gate.name
                && event.figures?["verdict"]?.string == gate.verdict.rawValue
        }
    }

    package static let gatePrefix = "gate:"

    /// Decides by what the gates of an open release show. A gate that asks to roll back goes before one that asks to
    /// pause.
    package func decision(_ readings: [GateReading], at now: Timestamp) -> GateDecision {
        guard state == .ramping || state == .baking else { return .goOn }
        let valid = readings.filter { !hasStopped($0) }
        let tripped = valid.filter { $0.verdict == .tripped }
        if let gate = tripped.first(where: { policy.gates.onTrip($0.name) == .rollback }) { return .rollBack(gate) }
        if let gate = tripped.first { return .pause(gate) }
        guard policy.onTooLittle == .hold, due(at: now) == .advance,
            let gate = valid.first(where: { $0.verdict == .tooLittle })
        else { return .goOn }
        return .pause(gate)
    }

    /// Compares streams for the gate `loss`; nil where it is off.
    package func lossGate(at time: UInt64) -> LossGate? {
        policy.gates.loss.map { gate in
            LossGate(
                returnTime: UInt64(policy.gates.lossReturn.milliseconds) * 1_000_000,
                margin: Double(gate.limit) / Double(Percentage.whole), at: time)
        }
    }
}

extension GateReading {
    /// Members of the audit log's line about a gate's action on a release, the same as in an operator's line.
    ///
    /// - Parameter state: the state after the action; for a rollback the line's version is added later.
    package func auditEntry(_ release: Release, _ state: Release.State) -> JSONObject {
        [
            "actor": .string(Release.gatePrefix + name), "project": .string(release.scope.project.description),
            "namespace": .string(release.scope.namespace.description),
            "release": .string(String(release.version)), "state": .string(state.rawValue), "outcome": "ok",
            "reason": detail.map(JSONValue.string),
            "rollbackSource": state == .rolledBack ? .string(String(release.base)) : nil,
        ]
    }
}
