import StalecastWire
import Testing

@Suite struct TimestampTests {
    @Test(arguments: [
        (0, "1970-01-01T00:00:00.000000Z"), (1, "1970-01-01T00:00:00.000001Z"), (-1, "1969-12-31T23:59:59.999999Z"),
        (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"), (1_709_164_800_000_000, "2024-02-29T00:00:00.000000Z"),
        (4_107_542_399_000_000, "2100-02-28T23:59:59.000000Z"), (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
    ])
    func momentIsWrittenWithSixDecimalsAndReadBack(micros: Int64, text: String) {
        #expect(Timestamp(microseconds: micros).description == text)
        #expect(Timestamp(text)?.microseconds == micros)
    }

    @Test(arguments: [
        ("2026-11-20T13:00:00Z", "2026-11-20T13:00:00.000000Z"),
        ("2026-11-20T13:00:00.5+01:00", "2026-11-20T12:00:00.500000Z"),
        ("2026-01-01T00:30:00-01:30", "2026-01-01T02:00:00.000000Z"),
        ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00.000000Z"),
        ("2026-11-20t13:00:00.123456789z", "2026-11-20T13:00:00.123456Z"),
        ("2026-11-20 13:00:00.1Z", "2026-11-20T13:00:00.100000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
    ])
    func everyFormOfRFC3339IsRead(text: String, canonical: String) {
        #expect(Timestamp(text)?.description == canonical)
    }

    @Test(arguments: [
        "", "2026-11-20", "2026-11-20T13:00:00", "2026-11-20T13:00Z", "2026-11-20T13:00:00.Z",
        "2026-11-20T13:00:00.1234567890Z",
        "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-04-31T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:00+1:00", "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00 Z", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z ", "26-01-01T00:00:00Z",
        "+026-01-01T00:00:00Z",
        "２026-01-01T00:00:00Z", "2026-01-01T00:00:00Zx",
    ])
    func anythingElseIsRefused(text: String) {
        #expect(Timestamp(text) == nil)
    }

    @Test func nowLiesBetweenItsNeighbours() {
        let times = (0..<3).map { _ in Timestamp.now() }
        #expect(times == times.sorted())
        #expect(times[0] > Timestamp(microseconds: 1_700_000_000_000_000))
    }

    @Test func extremeValuesCanBePrinted() {
        for micros in [Int64.min, .min + 1, .max] { #expect(!Timestamp(microseconds: micros).description.isEmpty) }
    }

    @Test func everyDayOfFourCenturiesComesBack() {
        for day in stride(from: Int64(-25_567), to: 120_530, by: 1) {
            let stamp = Timestamp(microseconds: day * 86_400_000_000)
            guard Timestamp(stamp.description) == stamp else {
                Issue.record("\(stamp) is not read back")
                return
            }
        }
    }
}
