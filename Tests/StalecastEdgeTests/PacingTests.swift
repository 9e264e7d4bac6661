import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

@Suite struct PacingTests {
    private let topic = Topic.Index(0)

    private func announcement(_ sequence: CommitSequence, over milliseconds: Int = 0) -> TopicBoard.Announcement {
        let change = TemplateChange(
            scope: LiveEdge.scope, sequence: sequence, metadata: VersionMetadata(number: 1, updateTime: .now()),
            etag: "e", changedKeys: nil)
        let board = TopicBoard(epoch: .random(), head: 0, bindings: [], changes: [])
        return board.announcement(of: change, fetchWindowMs: 0, pacedOverMs: milliseconds, at: 0)
    }

    /// The steps at a time: written sequences, streams whose turn it is, echoes.
    private func steps(_ pacing: inout Pacing, at now: UInt64) -> (
        written: [CommitSequence], turns: [Int32], echoes: Int
    ) {
        var (written, turns, echoes): ([CommitSequence], [Int32], Int) = ([], [], 0)
        for (_, step) in pacing.steps(at: now) {
            switch step {
            case .write(let announcement): written.append(announcement.change.sequence)
            case .turns(let streams, _, _): turns += streams
            case .echo: echoes += 1
            }
        }
        return (written, turns, echoes)
    }

    @Test func theNewestWinsWithinTheDistance() {
        var pacing = Pacing(echoDelayMs: 5000)
        let decisions = (1...3).map { pacing.admit(announcement($0), on: topic, at: 1000) }
        #expect(decisions == [.write, .hold, .replace] && pacing.isHolding(topic))
        #expect(steps(&pacing, at: 999 + Pacing.distanceMs).written == [])
        #expect(steps(&pacing, at: 1000 + Pacing.distanceMs).written == [3])
        #expect(!pacing.isHolding(topic) && steps(&pacing, at: 5000).written == [])
        #expect(pacing.admit(announcement(4), on: topic, at: 9000) == .write)
    }

    @Test func theFirstVersionThatIsHeldBackIsKnownUntilItIsWritten() {
        var pacing = Pacing(echoDelayMs: 5000)
        pacing.noteHeld(topic, 1)
        #expect(pacing.heldSince(topic) == nil, "nothing is held")
        for sequence: CommitSequence in 1...3 {
            _ = pacing.admit(announcement(sequence), on: topic, at: 1000)
            pacing.noteHeld(topic, sequence)
        }
        #expect(pacing.heldSince(topic) == 2)
        #expect(pacing.takeHeld(topic, at: 1050)?.change.sequence == 3)
        #expect(pacing.takeHeldSince(topic) == 2 && pacing.heldSince(topic) == nil)
        #expect(pacing.admit(announcement(4), on: topic, at: 1100) == .hold, "what was taken counts as written")
    }

    @Test func aBurstIsNotOverWhileTurnsAreWaitedFor() {
        var pacing = Pacing(echoDelayMs: 1000)
        _ = pacing.admit(announcement(1), on: topic, at: 1000)
        _ = pacing.admit(announcement(2, over: 10_000), on: topic, at: 1500)
        pacing.begin(announcement(2, over: 10_000), on: topic, first: [], members: Array(0..<10), at: 1500)
        var told = 0
        for now in stride(from: UInt64(1600), through: 11_500, by: 100) {
            let due = steps(&pacing, at: now)
            told += due.turns.count
            #expect(due.echoes == 0)
        }
        #expect(told == 10 && steps(&pacing, at: 12_400).echoes == 0)
        #expect(steps(&pacing, at: 12_500).echoes == 1 && steps(&pacing, at: 20_000).echoes == 0)
    }

    @Test func aSupersededFanOutLeavesThoseItHasNotComeTo() {
        var pacing = Pacing(echoDelayMs: 1000)
        pacing.begin(announcement(1, over: 1000), on: topic, first: [], members: Array(0..<10), at: 0)
        for index in steps(&pacing, at: 500).turns { #expect(pacing.reached(index) == 1) }
        let left = pacing.unreached.keys.first ?? -1
        pacing.reached(left)
        let rest = pacing.supersede(topic)
        #expect(rest.count == 4 && Set(rest) == Set(pacing.unreached.keys) && !rest.contains(left))
        pacing.begin(announcement(2, over: 1000), on: topic, first: rest, members: Array(0..<10), at: 600)
        #expect(pacing.unreached.values.sorted() == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2])
        #expect(Set(steps(&pacing, at: 1000).turns) == Set(rest), "these have waited longest")
        pacing.reachAtOnce(rest)
        pacing.forgetReached()
        #expect(pacing.unreached.count == 6)
    }

    @Test func stagesGoOnWhereTheirTopicWas() {
        var pacing = Pacing(echoDelayMs: 1000)
        for now: UInt64 in [1000, 1500] { _ = pacing.admit(announcement(1), on: topic, at: now) }
        let stages = [Topic.Index(1), Topic.Index(2)]
        pacing.split([topic], into: stages)
        #expect(stages.map { pacing.admit(announcement(2), on: $0, at: 1600) } == [.hold, .hold])
        pacing.split([Topic.Index(7)], into: [Topic.Index(8)])
        #expect(pacing.admit(announcement(2), on: Topic.Index(8), at: 1600) == .write)
    }
}
