import StalecastOutbound
import StalecastTestSupport
import StalecastWire
import Testing

/// Addresses from outside, and what answers say, cost in proportion to their length.
@Suite struct DoublingTests {
    @Test(arguments: [
        GrowingText("1."), GrowingText(":"), GrowingText("0", before: ".0.0.1"), GrowingText("f:", before: ":/8"),
        GrowingText("/"),
        GrowingText("9", after: "10.0.0.0/"), GrowingText("é"), GrowingText("0", after: "::", before: "/128"),
    ])
    func readingAnAddressRangeIsLinear(text: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, text.text) { _ = try CIDR($0) }
        try expectLinear(upTo: 1 << 16, text.text) { _ = IPAddress($0) }
    }

    @Test(arguments: [
        GrowingText("a", after: "http://"), GrowingText("/a", after: "http://h"),
        GrowingText("/..", after: "http://h/a"),
        GrowingText("%41", after: "http://h/"), GrowingText("@", after: "http://"),
        GrowingText("a=#&", after: "http://h/?"),
        GrowingText("1.", after: "http://"), GrowingText("[", after: "http://"), GrowingText("A", after: "http://"),
        GrowingText("/../a", after: "http://h/"), GrowingText("xn--", after: "http://"),
    ])
    func readingAURLIsLinear(text: GrowingText) throws {
        try expectLinear(upTo: OutboundURL.maxBytes, text.text) { _ = try OutboundURL($0) }
        try expectLinear(upTo: 1 << 15, text.text) { _ = try OutboundURL($0, maxBytes: 1 << 20) }
    }

    @Test(arguments: ["1", " ", "\t", "Sun, ", "a", "é", "1 "]) func readingAnAnswersHeadersIsLinear(piece: String)
        throws
    {
        try expectLinear(upTo: 1 << 15, GrowingText(piece).text) {
            _ = RetryAfter.delay($0, date: $0, now: Timestamp(microseconds: 0))
        }
        try expectLinear(upTo: 1 << 15, GrowingText(piece, after: "1").text) {
            _ = RetryAfter.delay($0, now: Timestamp(microseconds: 0))
        }
        try expectLinear(upTo: 1 << 15, GrowingText(piece).text) { _ = try OutboundHeader($0, $0) }
    }
}
