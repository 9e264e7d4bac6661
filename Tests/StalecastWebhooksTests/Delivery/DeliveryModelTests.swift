import Foundation
import StalecastTestSupport
import StalecastWebhooks
import Testing

/// `STALECAST_MODEL_RUNS` runs beginning with `STALECAST_MODEL_SEED`. That the model finds what it is there for is shown by
/// `test_webhooks_planted.py`.
@Suite(.serialized) struct DeliveryModelTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let runs = environment["STALECAST_MODEL_RUNS"].flatMap { UInt64($0) } ?? UInt64(inputs(200))
    private static let first = environment["STALECAST_MODEL_SEED"].flatMap { UInt64($0) } ?? 1
    private static let steps = 120

    /// Failure and the last steps before it; nil when nothing went wrong.
    private static func failure(of seed: UInt64) -> String? {
        var model = DeliveryModel(seed: seed)
        for _ in 0..<steps where model.problems.isEmpty { model.step() }
        if model.problems.isEmpty { model.end() }
        guard !model.problems.isEmpty else { return nil }
        let last = model.steps.suffix(80).joined(separator: "\n")
        return "seed \(seed): \(model.problems.joined(separator: "; "))\n\(last)"
    }

    @Test func whateverHappensTheNewestArrivesInOrder() async {
        for seed in Self.first..<Self.first + Self.runs {
            // Other tests wait for answers meanwhile.
            await Task.yield()
            guard let failure = Self.failure(of: seed) else { continue }
            Issue.record("\(failure)")
            return
        }
    }
}
