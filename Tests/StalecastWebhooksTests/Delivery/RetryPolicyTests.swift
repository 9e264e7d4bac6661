import StalecastOutbound
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct RetryPolicyTests {
    private static let now = Timestamp(microseconds: 1_800_000_000_000_000)

    @Test(
        arguments: [
            (200, [:], .delivered), (299, [:], .delivered), (301, [:], .failed(.backoff)),
            (404, [:], .failed(.backoff)),
            (410, [:], .gone), (413, [:], .hopeless), (415, [:], .hopeless), (500, [:], .failed(.backoff)),
            (503, [:], .failed(.backoff)), (429, [:], .failed(.atLeast(.seconds(30)))),
            (502, [:], .failed(.atLeast(.seconds(30)))), (429, ["retry-after": "7"], .failed(.patience(.seconds(7)))),
            (503, ["retry-after": "9999999"], .failed(.patience(.seconds(3600)))),
            (500, ["retry-after": "7"], .failed(.backoff)), (200, ["webhook-delivery": "Disable"], .refused),
            (500, ["webhook-delivery": "abort-message"], .hopeless),
        ] as [(Int, [String: String], AttemptConclusion)])
    func anAnswerMeansWhatIsDocumented(status: Int, headers: [String: String], conclusion: AttemptConclusion) {
        let outcome = OutboundOutcome(result: .answered(status: status, headers: headers, body: [], truncated: false))
        #expect(AttemptConclusion(outcome, DeliveryConfiguration.Pace(), at: Self.now) == conclusion)
    }

    @Test(arguments: OutboundFailure.Reason.allCases)
    func noAnswerIsAFailureUnlessItWasOurDoing(reason: OutboundFailure.Reason) {
        let conclusion = AttemptConclusion(
            OutboundOutcome(result: .failed(OutboundFailure(reason))), DeliveryConfiguration.Pace(), at: Self.now)
        switch reason {
        case .cancelled: #expect(conclusion == .cancelled)
        case .blocked, .tlsVerify: #expect(conclusion == .failed(.atLeast(.seconds(900))))
        default: #expect(conclusion == .failed(.backoff))
        }
    }

    @Test func waitsDoubleUpToTheirCapAndAreDrawnFromAllOfIt() {
        let pace = DeliveryConfiguration.Pace()
        var random = SeededRandom(seed: 1)
        for (failures, most) in [(1, 1), (2, 2), (5, 16), (20, 600), (100_000, 600)] {
            let waits = (0..<200).map { _ in pace.backoff(after: failures, isOneVersion: false, using: &random) }
            let limit = pace.floor + .seconds(most)
            #expect(waits.allSatisfy { $0 >= pace.floor && $0 <= limit })
            #expect(waits.contains { $0 > limit * 0.9 } && waits.contains { $0 < limit * 0.3 + pace.floor })
        }
        #expect(pace.backoff(after: 100, isOneVersion: true, using: &random) <= pace.floor + .seconds(6 * 3600))
    }

    // MARK: Rates

    @Test func aSecondsWorthIsFreeAndThenTheRateIsKept() {
        var bucket = TokenBucket()
        let begin: UInt64 = 5_000_000_000
        var now = begin
        for _ in 0..<30 {
            now = bucket.ready(10, at: now)
            bucket.take(10, at: now)
        }
        // Ten at once, twenty at a tenth of a second each.
        #expect((1_990_000_000...2_010_000_000).contains(now - begin))
    }

    @Test func aRateBelowOneASecondAllowsTheFirst() {
        var bucket = TokenBucket()
        #expect(bucket.ready(0.001, at: 1_000_000_000) == 1_000_000_000)
        bucket.take(0.001, at: 1_000_000_000)
        #expect((1000...1001).contains((bucket.ready(0.001, at: 1_000_000_000) - 1_000_000_000) / 1_000_000_000))
    }

    @Test func withoutARateNothingWaits() {
        var bucket = TokenBucket()
        for now in 1...100 as ClosedRange<UInt64> {
            #expect(bucket.ready(nil, at: now) == now)
            bucket.take(nil, at: now)
        }
    }
}
