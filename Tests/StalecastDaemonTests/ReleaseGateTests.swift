import StalecastHub
import StalecastOutbound
import StalecastStore
import StalecastWire
import Testing

import StalecastDaemon

@Suite struct ReleaseGateTests {
    private let start = Timestamp(microseconds: 1_700_000_000_000_000)

    private func release(_ members: JSONObject = [:]) throws -> Release {
        var members = members
        members["stages"] = ["1%", "50%", "100%"]
        let scope = Scope(project: try ProjectID("demo"), namespace: .firebase)
        var release = Release(scope: scope, version: 2, base: 1, policy: try ReleasePolicy(json: .object(members)))
        try release.begin(sequence: 5, at: start)
        return release
    }

    private func reading(_ name: String, _ facts: GateFacts, _ gates: JSONObject = [:]) throws -> GateReading {
        let readings = try ReleasePolicy(json: ["gates": .object(gates)]).gates.readings(facts)
        return try #require(readings.first { $0.name == name })
    }

    private func clients(fetched: Int = 0, failed: Int = 0, answers: Int = 0, errors: Int = 0) -> GateFacts {
        var facts = GateFacts()
        facts.clients.fetched = fetched
        facts.clients.failed = failed
        facts.clients.answers = answers
        facts.clients.errors = errors
        return facts
    }

    @Test func failuresCountFromThreeOnAmongFiveClients() throws {
        #expect(try reading("failed", clients(fetched: 4, failed: 4)).verdict == .tooLittle)
        #expect(try reading("failed", clients(fetched: 20, failed: 2)).verdict == .ok)
        let tripped = try reading("failed", clients(fetched: 200, failed: 3))
        #expect(tripped.verdict == .tripped && tripped.value == 1.5 && tripped.limit == 1 && tripped.count == 200)
        #expect(try reading("failed", clients(fetched: 300, failed: 3)).verdict == .ok)
    }

    @Test func fetchErrorsAreAShareOfAllFetches() throws {
        #expect(try reading("fetchErrors", clients(answers: 10, errors: 9)).verdict == .tooLittle)
        #expect(try reading("fetchErrors", clients(answers: 97, errors: 3)).verdict == .tripped)
        #expect(try reading("fetchErrors", clients(answers: 980, errors: 20)).verdict == .ok)
    }

    @Test func lossShowsBothSides() throws {
        var facts = GateFacts()
        #expect(try reading("loss", facts).verdict == .tooLittle)
        facts.loss = .quiet(toldLoss: 0.01, untoldLoss: 0.005, addresses: 40)
        let quiet = try reading("loss", facts)
        #expect(quiet.verdict == .ok && quiet.told == 1 && quiet.untold == 0.5 && quiet.count == 40 && quiet.limit == 2)
        facts.loss = .harm(toldLoss: 0.2, untoldLoss: 0.005, addresses: 30, evidence: 1200)
        #expect(try reading("loss", facts).detail == "told addresses lost 20.0 % of their streams, the others 0.5 %")
    }

    @Test func gatesThatAreOffShowNothing() throws {
        let off: JSONObject = ["failed": "off", "fetchErrors": "off", "loss": "off"]
        #expect(try ReleasePolicy(json: ["gates": .object(off)]).gates.readings(GateFacts()).isEmpty)
        let standard = ReleasePolicy.standard.gates.readings(GateFacts())
        #expect(standard.map(\.name) == ["failed", "fetchErrors", "loss"])
    }

    @Test func aURLMustAnswerBadlyThriceInARow() throws {
        var facts = GateFacts()
        let gates: JSONObject = ["url": "https://example.org/"]
        for (probe, verdict) in [
            (nil, .tooLittle), (.good, .ok), (.bad(inRow: 2, "no"), .tooLittle), (.bad(inRow: 3, "no"), .tripped),
        ] as [(GateProbe?, GateReading.Verdict)] {
            facts.url = probe
            #expect(try reading("url", facts, gates).verdict == verdict)
        }
    }

    @Test func aQueryTripsAboveItsLimit() throws {
        var facts = GateFacts()
        let gates: JSONObject = ["prometheus": ["url": "http://p:9090", "query": "up", "limit": .double(0.05)]]
        for (probe, verdict) in [
            (nil, .tooLittle), (.value(0.05), .ok), (.value(0.06), .tripped), (.unknown("no answer"), .tooLittle),
        ] as [(GateProbe?, GateReading.Verdict)] {
            facts.prometheus = probe
            #expect(try reading("prometheus", facts, gates).verdict == verdict)
        }
    }

    @Test func theAuditLogNamesTheGateThatStoppedARelease() throws {
        var reading = GateReading("loss", .tripped)
        reading.detail = "too many"
        let release = try release([:])
        let entry = reading.auditEntry(release, .paused)
        #expect(entry["actor"] == "gate:loss" && entry["state"] == "PAUSED" && entry["reason"] == "too many")
        #expect(entry["release"]?.string == String(release.version) && entry["namespace"] == "firebase")
        let taken = reading.auditEntry(release, .rolledBack)
        #expect(taken["state"] == "ROLLED_BACK" && taken["rollbackSource"] == "1" && entry["rollbackSource"] == nil)
    }

    // MARK: Decisions

    private let tripped = GateReading("loss", .tripped)

    @Test func aTrippedGateStopsTheReleaseBeforeItsNextStage() throws {
        let release = try release(["every": "1m"])
        let later = start.advanced(by: .seconds(60))
        #expect(release.decision([GateReading("loss", .ok)], at: later) == .goOn)
        #expect(release.decision([tripped], at: later) == .pause(tripped))
        let failed = GateReading("failed", .tripped)
        #expect(release.decision([tripped, failed], at: start) == .rollBack(failed))
    }

    @Test func aGateThatAnOperatorOverruledIsQuietUntilTheNextStage() throws {
        var release = try release(["every": "1m"])
        try release.pause(at: start, by: "gate:loss", reason: nil, figures: tripped.json)
        #expect(release.decision([tripped], at: start) == .goOn, "it is paused already")
        try release.resume(at: start, by: "key:ada")
        #expect(release.decision([tripped], at: start) == .goOn)
        #expect(
            release.decision([tripped, GateReading("url", .tripped)], at: start) == .pause(GateReading("url", .tripped))
        )
        try release.advance(sequence: 6, at: start, by: "schedule")
        #expect(release.decision([tripped], at: start) == .pause(tripped))
    }

    @Test func tooLittleHoldsWhereThePolicySaysSo() throws {
        let little = GateReading("loss", .tooLittle)
        var release = try release(["every": "1m", "onTooLittle": "hold"])
        let later = start.advanced(by: .seconds(60))
        #expect(release.decision([little], at: start) == .goOn)
        #expect(release.decision([little], at: later) == .pause(little))
        // Going on with too little is not going on with harm.
        var resumed = release
        try resumed.pause(at: later, by: "gate:loss", figures: little.json)
        try resumed.resume(at: start, by: "key:ada")
        #expect(
            resumed.decision([little], at: later) == .goOn && resumed.decision([tripped], at: later) == .pause(tripped))
        #expect(try self.release(["every": "1m"]).decision([little], at: later) == .goOn)
        try release.promote(sequence: 6, at: start, by: "key:ada")
        #expect(release.decision([little], at: start.advanced(by: .seconds(900))) == .goOn)
    }

    // MARK: Answers from outside

    private func answer(_ status: Int, _ text: String) -> OutboundOutcome.Result {
        .answered(status: status, headers: [:], body: Array(text.utf8), truncated: false)
    }

    @Test func answersOfPrometheusAreRead() {
        let vector =
            #"{"data":{"resultType":"vector","result":[{"value":[1,"0.5"]},{"value":[1,"2"]},{"value":[1,"NaN"]}]}}"#
        #expect(GateProbes.readQuery(answer(200, vector)) == .value(2))
        let scalar = #"{"data":{"resultType":"scalar","result":[1,"0.25"]}}"#
        #expect(GateProbes.readQuery(answer(200, scalar)) == .value(0.25))
        let empty = #"{"data":{"resultType":"vector","result":[]}}"#
        #expect(GateProbes.readQuery(answer(200, empty)) == .unknown("the query gives no number"))
        let wrong = GateProbes.readQuery(answer(400, #"{"error":"bad_data: parse error"}"#))
        #expect(wrong == .unknown("Prometheus answers 400: bad_data: parse error"))
        #expect(GateProbes.readQuery(answer(200, "<html>")) == .unknown("Prometheus answers 200"))
        guard case .unknown = GateProbes.readQuery(.failed(OutboundFailure(.refused))) else {
            Issue.record("no answer is no figure")
            return
        }
    }

    @Test func aQueryIsPartOfAURL() throws {
        let json: JSONValue = ["url": "http://p:9090/", "query": #"rate(e{a="b"}[5m])"#, "limit": 1]
        let gate = try #require(try ReleasePolicy(json: ["gates": ["prometheus": json]]).gates.prometheus)
        #expect(GateProbes.query(gate) == "http://p:9090/api/v1/query?query=rate%28e%7Ba%3D%22b%22%7D%5B5m%5D%29")
    }

    @Test func onlyAGoodStatusIsGood() {
        #expect(GateProbes.readStatus(answer(200, "")) == .good)
        #expect(GateProbes.readStatus(answer(503, "")) == .bad(inRow: 1, "the URL answers 503"))
        #expect(GateProbes.readStatus(answer(204, "")) == .bad(inRow: 1, "the URL answers 204"))
    }
}
