import StalecastControl
import StalecastHub
import StalecastWire
import Testing

@Suite struct PropagationGoalTests {
    private func rolloutStatus(
        audience: Int, fetched: Int, left: Int = 0, lost: Int = 0, isCounted: Bool = true
    ) -> RolloutStatus {
        let record: JSONValue = [
            "at": 0, "s": "SPREADING", "n": .array([JSONValue](repeating: 0, count: 13)), "t": [[], [], []],
        ]
        var rolloutStatus = RolloutStatus(record: record, of: 2)!
        (rolloutStatus.clients.audience, rolloutStatus.clients.fetched, rolloutStatus.clients.left) = (
            audience, fetched, left
        )
        rolloutStatus.clients.lost = lost
        rolloutStatus.isCounted = isCounted
        return rolloutStatus
    }

    private func verdict(
        _ rolloutStatus: RolloutStatus, stage: RolloutStatus.Stage = .fetched, target: Double = 0.99,
        minClients: Int = 0, isNewest: Bool = true, waited: Duration = .zero
    ) -> PropagationGoal.Reason? {
        PropagationGoal(stage: stage, target: target, minClients: minClients, timeout: .seconds(60))
            .verdict(on: rolloutStatus, isNewest: isNewest, waited: waited)
    }

    @Test func clientsThatLeftAfterTheyWereToldCountAgainstTheGoal() {
        #expect(verdict(rolloutStatus(audience: 10, fetched: 9, left: 1, lost: 1), target: 0.9) == .reached)
        let killed = rolloutStatus(audience: 10, fetched: 4, left: 6, lost: 6)
        #expect(verdict(killed, target: 0.9) == nil, "they may come back")
        #expect(verdict(killed, target: 0.9, waited: .seconds(60)) == .timeout)
        let all = rolloutStatus(audience: 10, fetched: 0, left: 10, lost: 10)
        #expect(verdict(all) == nil && verdict(all, waited: .seconds(60)) == .timeout)
    }

    @Test func theShareLeavesOutThoseThatWentUntold() {
        #expect(verdict(rolloutStatus(audience: 100, fetched: 98)) == nil)
        #expect(verdict(rolloutStatus(audience: 100, fetched: 99)) == .reached)
        #expect(verdict(rolloutStatus(audience: 200, fetched: 99, left: 100)) == .reached)
    }

    @Test func anEmptyAudienceIsEnoughWhereNoClientsAreRequired() {
        #expect(verdict(rolloutStatus(audience: 0, fetched: 0)) == .reached)
        #expect(verdict(rolloutStatus(audience: 0, fetched: 0), minClients: 1) == .noAudience)
        #expect(verdict(rolloutStatus(audience: 4, fetched: 4), minClients: 5) == .noAudience)
        #expect(verdict(rolloutStatus(audience: 4, fetched: 0, left: 4)) == .noAudience, "all went untold")
        #expect(verdict(rolloutStatus(audience: 0, fetched: 0, isCounted: false)) == nil, "not all loops have told")
    }

    @Test func aNewerVersionAndTheTimeEndIt() {
        #expect(verdict(rolloutStatus(audience: 2, fetched: 1), isNewest: false) == .superseded)
        var status = rolloutStatus(audience: 2, fetched: 2)
        #expect(verdict(status, isNewest: false) == .superseded, "they may have got the newer version only")
        status.state = .converged
        #expect(verdict(status, isNewest: false) == .reached, "they had it before the newer one came")
        status.clients.active = 2
        #expect(verdict(status, stage: .active) == .reached)
        #expect(verdict(status, stage: .active, isNewest: false) == .superseded, "they may run the newer version only")
        #expect(verdict(rolloutStatus(audience: 2, fetched: 1), waited: .seconds(60)) == .timeout)
        #expect(verdict(rolloutStatus(audience: 2, fetched: 1), waited: .seconds(59)) == nil)
    }

    /// A node may tell only during the wait that it asks its clients for more time.
    @Test func withoutATimeItLastsAMinuteLongerThanTheWindow() throws {
        let record: JSONValue = [
            "at": 0, "s": "SPREADING", "w": 90_000, "n": [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "t": [[], [], []],
        ]
        let here = rolloutStatus(audience: 2, fetched: 1)
        let elsewhere = try #require(RolloutStatus(record: record, of: 2))
        let both = here.together(with: [elsewhere], isComplete: true)
        #expect(both.fetches.windowMs == 90_000)
        let goal = PropagationGoal(stage: .fetched, target: 0.99, minClients: 0, timeout: nil)
        #expect(goal.verdict(on: here, isNewest: true, waited: .seconds(60)) == .timeout)
        #expect(goal.verdict(on: both, isNewest: true, waited: .seconds(149)) == nil)
        #expect(goal.verdict(on: both, isNewest: true, waited: .seconds(150)) == .timeout)
    }
}
