import StalecastControl
import StalecastWire
import Testing

@Suite("Counts of the last minute")
struct RecentCountsTests {
    private let late = Timestamp(microseconds: 10_800_000_000)

    @Test func countsOlderThanAMinuteAreForgotten() {
        var counts = RecentCounts()
        for _ in 0..<20 { counts.count("ada", at: late) }
        let (soon, later) = (late.advanced(by: .seconds(59)), late.advanced(by: .seconds(60)))
        let (hasRoomSoon, hasRoomLater) = (
            counts.hasRoom(for: "ada", below: 20, at: soon), counts.hasRoom(for: "ada", below: 20, at: later)
        )
        #expect(!hasRoomSoon)
        #expect(hasRoomLater)
    }

    @Test func aClockThatWasPutBackLocksNoOneOut() {
        var counts = RecentCounts()
        for _ in 0..<20 { counts.count("ada", at: late) }
        let hasRoom = counts.hasRoom(for: "ada", below: 20, at: late.advanced(by: .seconds(-3 * 3600)))
        #expect(hasRoom)
    }
}
