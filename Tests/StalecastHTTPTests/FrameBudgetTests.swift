import StalecastHTTP
import Testing

@Suite struct FrameBudgetTests {
    private static let preface = [UInt8](repeating: 0x20, count: 24)
    private static let second: UInt64 = 1_000_000_000

    private static func frame(_ type: UInt8, _ length: Int, stream: UInt8 = 1, row: UInt8 = 0) -> [UInt8] {
        let size = UInt32(length)
        return [UInt8(size >> 16 & 0xFF), UInt8(size >> 8 & 0xFF), UInt8(size & 0xFF), type, 0, 0, 0, row, stream]
            + [UInt8](repeating: 1, count: length)
    }

    /// Number of frames that pass, cut into pieces of so many bytes.
    private static func passing(_ frame: [UInt8], piece: Int = .max, credit: Int = 0) -> Int {
        var budget = FrameBudget(at: 0)
        _ = budget.take(preface, at: 0)
        for count in 0..<20_000 {
            var rest = frame[...]
            while !rest.isEmpty {
                if !budget.take(rest.prefix(piece), at: 0) { return count }
                rest = rest.dropFirst(piece)
            }
            budget.credit(credit)
        }
        return 20_000
    }

    @Test(arguments: [1, 5, 9, 1000])
    func framesCostWhatTheyAreLongHoweverTheyAreCut(piece: Int) {
        #expect(Self.passing(Self.frame(8, 4), piece: piece) == FrameBudget.capacity / 13)
        #expect(Self.passing(Self.frame(6, 8), piece: piece) == FrameBudget.capacity / 17)
        #expect(Self.passing(Self.frame(0xBB, 0), piece: piece) == FrameBudget.capacity / 9)
        let pieces = piece == .max ? piece : 100 * piece
        #expect(Self.passing(Self.frame(1, 16_384), piece: pieces) == FrameBudget.headCapacity / 16_393)
    }

    @Test func bodiesCostTheirFramesOnly() {
        #expect(Self.passing(Self.frame(0, 16_384)) == FrameBudget.capacity / 16)
        #expect(Self.passing(Self.frame(0, 0)) == FrameBudget.capacity / 16)
    }

    @Test func aPayloadThatWasOnlyAnnouncedCounts() {
        var budget = FrameBudget(at: 0)
        let isLetIn = budget.take(Self.preface + [0xFF, 0xFF, 0xFF, 9, 0, 0, 0, 0, 1], at: 0)
        #expect(!isLetIn)
    }

    @Test func whatIsSentPaysForItsAcknowledgement() {
        #expect(Self.passing(Self.frame(8, 4), credit: FrameBudget.perDataFrame) == 20_000)
    }

    /// The heads of all clients of a proxy come on one connection.
    @Test func anAnsweredHeadIsGivenBackWhole() {
        var budget = FrameBudget(at: 0)
        _ = budget.take(Self.preface, at: 0)
        for _ in 0..<100 {
            let isLetIn = budget.take(Self.frame(1, 16_384) + Self.frame(9, 14_000), at: 0)
            #expect(isLetIn)
            budget.ended(1, isAnswered: true)
            // A head that goes little beyond a frame.
            let isLetInAgain = budget.take(Self.frame(1, 16_384) + Self.frame(9, 700), at: 0)
            #expect(isLetInAgain)
            budget.ended(1, isAnswered: true)
        }
        var count = 0
        while count < 100, budget.take(Self.frame(1, 16_384), at: 0) {
            budget.ended(1, isAnswered: false)
            count += 1
        }
        #expect(count == FrameBudget.headCapacity / 16_393, "a head that its client gave up stays paid for")
    }

    @Test func allStreamsMayHaveALongToken() {
        var budget = FrameBudget(at: 0)
        _ = budget.take(Self.preface, at: 0)
        let areLetIn = (0..<128).allSatisfy { _ in budget.take(Self.frame(1, 9 * 1024), at: 0) }
        #expect(areLetIn)
    }

    /// No end is told of a head that nio-http2 drops.
    @Test func headsWithoutAnEndDoNotStopThatOthersAreGivenBack() {
        var budget = FrameBudget(at: 0)
        _ = budget.take(Self.preface, at: 0)
        for stream in 1...1000 {
            _ = budget.take(Self.frame(1, 0, stream: UInt8(stream & 0x7F), row: UInt8(stream >> 7)), at: 0)
        }
        for _ in 0..<300 {
            let isLetIn = budget.take(Self.frame(1, 16_384, stream: 1, row: 100), at: 0)
            #expect(isLetIn)
            budget.ended(100 << 8 | 1, isAnswered: true)
        }
    }

    @Test func timeRefillsAndNotBeyondTheCapacity() {
        var budget = FrameBudget(at: 0)
        var spent = 0
        _ = budget.take(Self.preface, at: 0)
        // Days later there is as much as at the beginning, not more.
        for _ in 0..<10_000 where budget.take(Self.frame(8, 4), at: 86_400 * Self.second) { spent += 13 }
        #expect(spent <= FrameBudget.capacity)
        budget = FrameBudget(at: 0)
        _ = budget.take(Self.preface, at: 0)
        let lasts = (0..<10_000).allSatisfy { budget.take(Self.frame(8, 4), at: UInt64($0) * Self.second / 100) }
        #expect(lasts, "a hundred window updates a second are allowed for ever")
    }

    @Test func theClockMayStandStillOrEnd() {
        var budget = FrameBudget(at: .max)
        let taken = [budget.take(Self.preface, at: 0), budget.take(Self.frame(4, 0), at: .max)]
        #expect(taken == [true, true])
    }
}
