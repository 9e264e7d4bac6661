import StalecastDaemon
import StalecastWire
import Testing

@Suite struct ClockWatchTests {
    private func reading(_ wall: Int, _ sinceBoot: Int) -> ClockWatch.Reading {
        ClockWatch.Reading(wall: .seconds(wall), sinceBoot: .seconds(sinceBoot))
    }

    @Test func aClockThatIsSetIsNoticedOnce() {
        var watch = ClockWatch(reading(100_000, 10))
        #expect(watch.step(to: reading(100_005, 15)) == nil)
        #expect(watch.step(to: reading(89_210, 20)) == .seconds(-10_800))
        #expect(watch.step(to: reading(89_215, 25)) == nil)
        #expect(watch.step(to: reading(92_820, 30)) == .seconds(3600))
    }

    @Test func aCorrectionOfASecondAndAMachineThatSleptAreNone() {
        var watch = ClockWatch(reading(100_000, 10))
        #expect(watch.step(to: reading(100_004, 15)) == nil)
        #expect(watch.step(to: reading(190_004, 90_015)) == nil)
    }

    @Test func aClockBehindTheLastRunIsNoticed() {
        let former = Timestamp(microseconds: 1_800_000_000_000_000)
        #expect(ClockWatch.setBack(now: former, since: nil) == nil)
        #expect(ClockWatch.setBack(now: Timestamp(microseconds: former.microseconds - 1_500_000), since: former) == nil)
        #expect(ClockWatch.setBack(now: Timestamp(microseconds: former.microseconds + 9_000_000), since: former) == nil)
        let behind = ClockWatch.setBack(
            now: Timestamp(microseconds: former.microseconds - 10_800_000_000), since: former)
        #expect(behind == .seconds(10_800))
        #expect(
            ClockWatch.sentence(now: Timestamp(microseconds: former.microseconds - 9_000_000), since: former)
                == "the system clock is 9 s behind the last audit line of the run before")
        #expect(ClockWatch.sentence(now: former, since: former) == nil)
    }
}
