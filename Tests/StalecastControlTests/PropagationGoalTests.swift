import StalecastControl
import StalecastHub
import StalecastWire
import Testing

@Suite struct PropagationGoalTests {
    private func way(audience: Int, fetched: Int, left: Int = 0, isCounted: Bool = true) -> Propagation {
        let record: JSONValue = [
            "at": 0, "s": "SPREADING", "n": .array([JSONValue](repeating: 0, count: 13)), "t": [[], [], []],
        ]
        var way = Propagation(record: record, of: 2)!
        (way.clients.audience, way.clients.fetched, way.clients.left) = (audience, fetched, left)
        way.isCounted = isCounted
        return way
    }

    private func verdict(
        _ way: Propagation, minClients: Int = 0, isNewest: Bool = true, waited: Duration = .zero
    ) -> PropagationGoal.Reason? {
        PropagationGoal(stage: .fetched, target: 0.99, minClients: minClients, timeout: .seconds(60))
            .verdict(on: way, isNewest: isNewest, waited: waited)
    }

    @Test func theShareIsOfThoseThatAreStillThere() {
        #expect(verdict(way(audience: 100, fetched: 98)) == nil)
        #expect(verdict(way(audience: 100, fetched: 99)) == .reached)
        #expect(verdict(way(audience: 200, fetched: 99, left: 100)) == .reached)
    }

    @Test func nobodyIsAnAudienceOnlyWhereNobodyIsAskedFor() {
        #expect(verdict(way(audience: 0, fetched: 0)) == .reached)
        #expect(verdict(way(audience: 0, fetched: 0), minClients: 1) == .noAudience)
        #expect(verdict(way(audience: 4, fetched: 4), minClients: 5) == .noAudience)
        #expect(verdict(way(audience: 4, fetched: 0, left: 4)) == .noAudience, "all went")
        #expect(verdict(way(audience: 0, fetched: 0, isCounted: false)) == nil, "not all loops have told")
    }

    @Test func aNewerVersionAndTheTimeEndIt() {
        #expect(verdict(way(audience: 2, fetched: 1), isNewest: false) == .superseded)
        #expect(verdict(way(audience: 2, fetched: 2), isNewest: false) == .reached)
        #expect(verdict(way(audience: 2, fetched: 1), waited: .seconds(60)) == .timeout)
        #expect(verdict(way(audience: 2, fetched: 1), waited: .seconds(59)) == nil)
    }
}
