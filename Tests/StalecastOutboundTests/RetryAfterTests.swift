import StalecastOutbound
import StalecastWire
import Testing

@Suite struct RetryAfterTests {
    private static let now = Timestamp(microseconds: 784_111_777_000_000)  // Sun, 06 Nov 1994 08:49:37 GMT

    @Test(arguments: [
        ("0", Duration.zero), ("7", .seconds(7)), (" 120 ", .seconds(120)), ("007", .seconds(7)),
        ("3600", .seconds(3600)), ("999999", .seconds(3600)), ("99999999999999999999999999", .seconds(3600)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", .zero), ("Sun, 06 Nov 1994 08:50:37 GMT", .seconds(60)),
        ("Sun, 06 Nov 1994 07:00:00 GMT", .zero), ("Sat, 06 Nov 1999 08:49:37 GMT", .seconds(3600)),
    ])
    func readsSecondsAndDates(header: String, expected: Duration) {
        #expect(RetryAfter.delay(header, now: Self.now) == expected)
    }

    @Test(arguments: [
        nil, "", " ", "soon", "-1", "1.5", "7 s", "0x10", "٣", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET", "1\r\n2",
    ])
    func whatCannotBeUnderstoodSaysNothing(header: String?) {
        #expect(RetryAfter.delay(header, now: Self.now) == nil)
    }

    @Test func aDateIsMeasuredAgainstTheOriginsOwnClock() {
        let wrong = Timestamp(microseconds: 0)
        let delay = RetryAfter.delay(
            "Sun, 06 Nov 1994 08:49:47 GMT", date: "Sun, 06 Nov 1994 08:49:37 GMT", now: wrong)
        #expect(delay == .seconds(10))
    }
}
