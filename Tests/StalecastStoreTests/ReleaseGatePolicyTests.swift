import StalecastStore
import StalecastWire
import Testing

@Suite struct ReleaseGatePolicyTests {
    private func gates(_ json: JSONValue) throws -> ReleasePolicy.Gates {
        try ReleasePolicy(json: ["gates": json]).gates
    }

    private func problem(_ json: JSONValue) -> String? {
        do { _ = try gates(json) } catch let problem as InvalidValue { return problem.description } catch {}
        return nil
    }

    @Test func gatesAreReadAndKeptInTheRecord() throws {
        let json: JSONValue = [
            "failed": "off", "silent": ["limit": "20%", "onTrip": "pause"], "loss": ["margin": "5%", "return": "2s"],
            "prometheus": [
                "url": "http://prometheus:9090", "query": "errors > 0", "limit": .double(0.05), "onTrip": "rollback",
            ],
            "url": "https://example.org/healthy",
        ]
        let policy = try ReleasePolicy(json: ["gates": json])
        #expect(policy.gates.failed == nil && policy.gates.loss?.limit == 500 && policy.gates.loss?.onTrip == .pause)
        #expect(policy.gates.lossReturn == .seconds(2) && policy.gates.fetchErrors?.onTrip == .rollback)
        #expect(policy.gates.prometheus?.limit == 0.05 && policy.gates.prometheus?.onTrip == .rollback)
        #expect(policy.gates.url?.url == "https://example.org/healthy" && policy.gates.url?.onTrip == .pause)
        #expect(try ReleasePolicy(json: policy.json) == policy)
        #expect(try ReleasePolicy(json: ReleasePolicy.standard.json) == .standard)
    }

    @Test func aGateThatCannotBeUsedIsNamed() {
        let query: JSONValue = ["url": "http://p:9090", "query": "up", "limit": 1]
        #expect(problem(["prometheus": query]) == nil)
        #expect(problem(["prometheus": ["url": "http://p:9090", "query": "up", "limit": "0.5"]]) == nil)
        for (json, name) in [
            (["prometheus": ["url": "http://p:9090", "query": "up"]] as JSONValue, "gates.prometheus.limit"),
            (["prometheus": ["url": "http://p:9090", "limit": 1]], "gates.prometheus.query"),
            (["prometheus": ["url": "p:9090", "query": "up", "limit": 1]], "gates.prometheus"),
            (["prometheus": "http://p:9090"], "gates.prometheus"), (["url": "ftp://p"], "gates.url"),
            (["url": ["url": "http://p", "onTrip": "stop"]], "gates.url.onTrip"), (["url": 3], "gates.url"),
            (["url": "http://p/ä"], "gates.url"), (["lost": "1%"], "gates"),
        ] {
            #expect(problem(json)?.hasPrefix(name) == true, "\(name): \(problem(json) ?? "no problem")")
        }
    }
}
