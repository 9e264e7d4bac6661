import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct CursorTests {
    private let epoch = "abcdefghijklmnopqrstuvwxyz"

    @Test(arguments: [0, 1, 42, UInt64.max])
    func cursorIsReadBackFromItsText(sequence: UInt64) throws {
        var random = SeededRandom(seed: sequence)
        let cursor = Cursor(epoch: .random(using: &random), sequence: sequence)
        #expect(Cursor(cursor.description) == cursor)
        #expect(cursor.description.utf8.count <= 64)
        #expect(cursor.description.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._~-".utf8.contains($0) })
    }

    @Test(arguments: [
        "", ".", "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz.", ".1", "abcdefghijklmnopqrstuvwxy.1",
        "abcdefghijklmnopqrstuvwxyza.1", "Abcdefghijklmnopqrstuvwxyz.1", "1bcdefghijklmnopqrstuvwxyz.1",
        "abcdefghijklmnopqrstuvwxyz.01", "abcdefghijklmnopqrstuvwxyz.+1", "abcdefghijklmnopqrstuvwxyz.-1",
        "abcdefghijklmnopqrstuvwxyz. 1", "abcdefghijklmnopqrstuvwxyz.1 ", "abcdefghijklmnopqrstuvwxyz.1.2",
        "abcdefghijklmnopqrstuvwxyz.18446744073709551616", "abcdefghijklmnopqrstuvwxyz.99999999999999999999999",
        "abcdefghijklmnopqrstuvwxyz.１", "abcdefghijklmnopqrstuvwxyz.1\0", "\u{301}bcdefghijklmnopqrstuvwxyz.1",
        "abcdefghijklmnopqrstuvwxyz.000000000000000000000000000000000000000000000000001",
    ])
    func whatWeNeverWroteIsNoCursor(text: String) {
        #expect(Cursor(text) == nil)
    }

    @Test func cursorsDifferByEpochAndBySequence() throws {
        let one = try #require(Cursor("\(epoch).1"))
        #expect(one != Cursor("\(epoch).2"))
        #expect(one != Cursor("\(String(epoch.reversed())).1"))
        #expect(one.sequence == 1)
        #expect(one.epoch == Epoch(epoch))
    }

    @Test func randomEpochsAreLegalAndDiffer() {
        let epochs = (0..<100).map { _ in Epoch.random() }
        #expect(Set(epochs).count == 100)
        #expect(epochs.allSatisfy { Epoch($0.description) == $0 })
    }
}
