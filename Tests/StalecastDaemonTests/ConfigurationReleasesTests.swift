import StalecastDaemon
import StalecastStore
import Testing

@Suite struct ConfigurationReleasesTests {
    private func plans(_ entries: String) throws -> [ReleasePlan] { try load("releases: [\(entries)]").releases }

    @Test func aScopeAloneHasTheStandardPolicyAndPublishesInstantly() throws {
        let plan = try #require(try plans("{scope: demo/firebase}").first)
        #expect(plan.policy == .standard && !plan.isStagedByDefault)
    }

    @Test func everyKeyIsRead() throws {
        let plan = try #require(
            try plans(
                """
                {scope: demo/firebase, default: staged, stages: [0.5%, 20%, 100%], every: 90s, bake: 0s, first: [qa-1],
                 anonymous: address, gates: {loss: off}, onTooLittle: hold}
                """
            ).first)
        #expect(plan.isStagedByDefault && plan.policy.stages == [50, 2000, 10_000] && plan.policy.first == ["qa-1"])
        #expect(plan.policy.every == .seconds(90) && plan.policy.bake == .zero && plan.policy.gates.loss == nil)
        #expect(plan.policy.anonymous == .address && plan.policy.onTooLittle == .hold)
    }

    @Test(arguments: [
        ("sources: {scopes: [{scope: demo/firebase, kind: file, path: a.json}]}", "come from its source"),
        ("projects: [{id: demo, number: 1, approvals: required}]", "need an approval"),
    ])
    func aPlanThatWouldNeverBeFollowedIsRefused(rest: String, part: String) {
        let found = problems("releases: [{scope: demo/firebase, default: staged}]\n\(rest)")
        #expect(found.count == 1 && found.first?.contains(part) == true, "\(found)")
    }

    @Test(arguments: [
        ("{default: staged}", "releases[0] has no scope"), ("{scope: demo/firebase, stage: [100%]}", "unknown key"),
        ("{scope: demo/firebase, stages: [50%]}", "releases[0].stages"), ("{scope: demo/other}", "there is no scope"),
        ("{scope: demo/firebase, default: slow}", "releases[0].default"),
        ("{scope: demo/firebase}, {scope: demo/firebase}", "is already releases[0]"),
    ])
    func aWrongEntryIsNamed(entries: String, part: String) {
        let found = problems("releases: [\(entries)]")
        #expect(found.count == 1 && found.first?.contains(part) == true, "\(found)")
    }
}
