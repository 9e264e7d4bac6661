import StalecastOutbound
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct BoundaryNumberTests {
    @Test(arguments: boundaryNumbers) func whatAnAnswerAsksForIsBounded(text: String) {
        let dates = [text, "Sun, 06 Nov \(text) 08:49:37 GMT", "Sun, 06 Nov 9999 08:49:\(text) GMT"]
        for header in dates {
            for date in dates + ["Sun, 06 Nov 1994 08:49:37 GMT"] {
                for now in [Int64.min, 0, .max] {
                    let delay = RetryAfter.delay(header, date: date, now: Timestamp(microseconds: now))
                    if let delay { #expect(delay >= .zero && delay <= RetryAfter.longest) }
                }
            }
        }
    }

    @Test(arguments: boundaryNumbers) func numbersInAddressesAreReadOrNot(text: String) {
        _ = (try? CIDR("10.0.0.0/\(text)"), try? CIDR("::/\(text)"), try? CIDR(text), IPAddress(text))
        if let url = try? OutboundURL("http://h:\(text)/") { #expect((0...65_535).contains(url.port)) }
        _ = try? OutboundURL("http://\(text)/")
    }
}
