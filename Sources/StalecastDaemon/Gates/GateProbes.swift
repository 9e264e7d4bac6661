import StalecastHTTP
package import StalecastOutbound
package import StalecastStore
import StalecastWire
import Synchronization

/// Asks outside for the gates `prometheus` and `url` of open releases, each at most every ten seconds.
package final class GateProbes: Sendable {
    private struct Key: Hashable {
        let scope: Scope
        let version: VersionNumber
        let gate: String
    }

    private struct Asked {
        var at: UInt64
        var isRunning = true
        var answer: GateProbe?
    }

    private let engine: OutboundEngine
    /// Reloads change it.
    private let policy: @Sendable () -> AddressPolicy
    private let asked = Mutex<[Key: Asked]>([:])

    static let period: UInt64 = 10_000_000_000

    /// - Parameter policy: addresses that may be called now.
    init(_ engine: OutboundEngine, policy: @escaping @Sendable () -> AddressPolicy) {
        self.engine = engine
        self.policy = policy
    }

    /// Returns the newest answers, and asks again where it is time.
    ///
    /// - Parameter time: now, in nanoseconds of the monotonic clock.
    func answers(for release: Release, at time: UInt64) -> (prometheus: GateProbe?, url: GateProbe?) {
        let gates = release.policy.gates
        return (
            gates.prometheus.flatMap { gate in
                answer(Key(scope: release.scope, version: release.version, gate: "prometheus"), at: time) {
                    try OutboundURL(Self.query(gate))
                } read: {
                    Self.readQuery($0)
                }
            },
            gates.url.flatMap { gate in
                answer(Key(scope: release.scope, version: release.version, gate: "url"), at: time) {
                    try OutboundURL(gate.url)
                } read: {
                    Self.readStatus($0)
                }
            }
        )
    }

    /// Forgets releases that are not open any more.
    func keep(_ releases: [Release]) {
        let open = Set(releases.map { Key(scope: $0.scope, version: $0.version, gate: "") })
        asked.withLock { asked in
            asked = asked.filter { open.contains(Key(scope: $0.key.scope, version: $0.key.version, gate: "")) }
        }
    }

    private func answer(
        _ key: Key, at time: UInt64, url: () throws -> OutboundURL,
        read: @escaping @Sendable (OutboundOutcome.Result) -> GateProbe
    ) -> GateProbe? {
        let (known, isDue) = asked.withLock { asked -> (GateProbe?, Bool) in
            let before = asked[key]
            if let before, before.isRunning || time < before.at + Self.period { return (before.answer, false) }
            // Marks the question under the lock, before it is sent: a second caller must not ask as well.
            asked[key] = Asked(at: time, answer: before?.answer)
            return (before?.answer, true)
        }
        guard isDue else { return known }
        do {
            let request = OutboundRequest(
                url: try url(), limits: OutboundLimits(timeout: .seconds(8), maxBodyBytes: 64 * 1024, overflow: .fail),
                policy: policy())
            engine.submit(request) { [self] in take(read($0.result), for: key) }
        } catch {
            take(.unknown("the gate's URL \(error)"), for: key)
        }
        return known
    }

    private func take(_ answer: GateProbe, for key: Key) {
        asked.withLock { asked in
            var answer = answer
            if case .bad(let inRow, let why) = answer, case .bad(let before, _)? = asked[key]?.answer {
                answer = .bad(inRow: before + inRow, why)
            }
            asked[key]?.answer = answer
            asked[key]?.isRunning = false
        }
    }

    // MARK: Reading

    package static func readStatus(_ result: OutboundOutcome.Result) -> GateProbe {
        switch result {
        case .answered(200, _, _, _): .good
        case .answered(let status, _, _, _): .bad(inRow: 1, "the URL answers \(status)")
        case .failed(let failure): .bad(inRow: 1, "the URL does not answer: \(failure.ownerText)")
        }
    }

    /// Reads an answer of Prometheus' API: a scalar, or the largest sample of a vector.
    package static func readQuery(_ result: OutboundOutcome.Result) -> GateProbe {
        guard case .answered(let status, _, let body, _) = result else {
            if case .failed(let failure) = result {
                return .unknown("Prometheus does not answer: \(failure.ownerText)")
            }
            return .unknown("Prometheus does not answer")
        }
        // A query that is wrong has its reason in the answer.
        let json = JSONValue.ifValid(body)
        guard status == 200, let data = json?["data"], let result = data["result"]?.array else {
            let why = json?["error"]?.string.map { ": " + String($0.prefix(200)) } ?? ""
            return .unknown("Prometheus answers \(status)\(why)")
        }
        // A sample is a pair of a time and a value, and the value is a text.
        let samples = data["resultType"]?.string == "scalar" ? [result] : result.map { $0["value"]?.array ?? [] }
        let values = samples.compactMap { $0.last?.string.flatMap(Double.init) }.filter { !$0.isNaN }
        guard let value = values.max() else { return .unknown("the query gives no number") }
        return .value(value)
    }

    package static func query(_ gate: ReleasePolicy.Query) -> String {
        let base = gate.url.hasSuffix("/") ? String(gate.url.dropLast()) : gate.url
        return "\(base)/api/v1/query?query=\(PercentEncoding.encode(gate.query))"
    }
}
