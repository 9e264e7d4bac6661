import StalecastCluster
import StalecastRecords
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that what a source's owner proposes lands only while it is the owner, however late it comes.
@Suite struct OwnershipTests {
    private static let assignment = RecordName(AssignmentService.kind, "source/demo/firebase")
    private static let logMetadata = LogMetadata(epoch: Epoch(String(repeating: "a", count: 26))!, revision: 1)

    /// Proposers of former owners beside the present one's; their calls arrive late, twice, or after the next owner's.
    private struct World {
        var log = MemoryLog(epoch: logMetadata.epoch)
        var random: SeededRandom
        let compared: MemoryLog.Comparisons
        var token: AssignmentLease.Token = 1
        var drafts: [(proposer: Proposer, draft: Proposer.Draft, token: AssignmentLease.Token)] = []
        /// Committed in the name of a node that was no owner any more.
        var intrusions = 0
        var refused = 0

        mutating func step() {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: propose()
            case 1:
                token += 1
                log.owners[assignment] = token
            default: deliver()
            }
        }

        mutating func propose() {
            let change = TemplateChange(
                scope: Scope(project: .demo, namespace: .firebase), sequence: log.head.sequence + 1,
                metadata: VersionMetadata(number: 1, updateTime: Timestamp(microseconds: 0)), etag: "",
                changedKeys: nil)
            let entry = LogEntry(
                change: change, publish: .random(using: &random), after: log.head, node: "", content: .inline([]))
            var proposer = Proposer(entry.publish, now: .zero)
            _ = proposer.begin()
            let draft = Proposer.Draft(entry: entry, logMetadata: log.logMetadata)
            _ = proposer.prepared(.draft(draft), now: .zero)
            drafts.append((proposer, draft, token))
        }

        mutating func deliver() {
            guard let index = drafts.indices.randomElement(using: &random) else { return }
            var (proposer, draft, owner) = drafts[index]
            let appended = log.append(
                draft.entry, under: draft.logMetadata, owner: (assignment, owner), at: .zero, compared)
            if case .committed = appended, owner != token { intrusions += 1 }
            // The call comes once more, as a late duplicate.
            if Bool.random(using: &random) { return }
            let action = proposer.appended(.success(appended), now: .zero, chance: &random)
            if case .deposed = appended {
                guard case .answer(.refused)? = action else { return #expect(Bool(false), "a deposed owner goes on") }
                refused += 1
            }
            drafts.remove(at: index)
        }
    }

    private func run(_ compared: MemoryLog.Comparisons, schedules: UInt64) -> (intrusions: Int, refused: Int) {
        var sum = (intrusions: 0, refused: 0)
        for seed in 0..<schedules {
            var world = World(random: SeededRandom(seed: seed), compared: compared)
            world.log.owners[Self.assignment] = world.token
            for _ in 0..<40 { world.step() }
            sum = (sum.intrusions + world.intrusions, sum.refused + world.refused)
        }
        return sum
    }

    @Test func aDeposedOwnerPublishesNothing() {
        let sum = run(MemoryLog.Comparisons(), schedules: 2000)
        #expect(sum.intrusions == 0 && sum.refused > 1000)
    }

    @Test func withoutTheComparisonItIsFound() {
        var compared = MemoryLog.Comparisons()
        compared.ownership = false
        #expect(run(compared, schedules: 100).intrusions > 10)
    }
}
