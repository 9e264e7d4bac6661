import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

@Suite struct PacedFanOutTests {
    private func fanOut(
        first: [Int] = [], _ others: [Int], turn: Int = 0, over milliseconds: Int = 10_000
    ) -> PacedFanOut<Int> {
        let change = TemplateChange(
            scope: LiveEdge.scope, sequence: 1, metadata: VersionMetadata(number: 1, updateTime: .now()), etag: "e",
            changedKeys: nil)
        let board = TopicBoard(epoch: .random(), head: 0, bindings: [], changes: [])
        return PacedFanOut(
            board.announcement(of: change, fetchWindowMs: 0, pacedOverMs: milliseconds, at: 0), first: first,
            others: others, turn: turn, at: 5000)
    }

    @Test func turnsAreEvenOverTheWindowAndTheLastIsAtItsEnd() {
        var fanOut = fanOut(Array(0..<100))
        #expect(fanOut.due(at: 5000).isEmpty && fanOut.due(at: 5099).isEmpty)
        #expect(fanOut.due(at: 5100).count == 1 && fanOut.due(at: 5100).isEmpty)
        #expect(fanOut.due(at: 10_000).count == 49)
        #expect(fanOut.due(at: 14_999).count == 49 && !fanOut.isOver && fanOut.rest.count == 1)
        #expect(fanOut.due(at: 15_000).count == 1 && fanOut.isOver)
        #expect(fanOut.due(at: .max).isEmpty)
    }

    @Test func waitingStreamsComeFirstAndNoStreamIsMissed() {
        var fanOut = fanOut(first: [7, 3], Array(10..<20), turn: 3)
        let all = Array(fanOut.due(at: .max))
        #expect(all.prefix(2) == [7, 3] && Set(all) == Set([7, 3] + Array(10..<20)) && all.count == 12)
    }

    @Test func noStreamIsAlwaysTheLast() {
        var lasts: Set<Int> = []
        for turn in 0..<100 {
            var fanOut = fanOut(Array(0..<10), turn: turn)
            lasts.insert(fanOut.due(at: .max).last ?? -1)
        }
        #expect(lasts == Set(0..<10))
    }

    @Test(arguments: [0, -1, Int.max])
    func oddWindowsAndTimesTrapNowhere(milliseconds: Int) {
        var fanOut = fanOut(Array(0..<5), over: milliseconds)
        #expect(fanOut.due(at: 0).isEmpty || milliseconds <= 0)
        #expect(milliseconds == .max || fanOut.due(at: .max).count + fanOut.rest.count <= 5)
        var nobody = self.fanOut([], over: milliseconds)
        #expect(nobody.isOver && nobody.due(at: .max).isEmpty)
    }
}
