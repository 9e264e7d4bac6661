import StalecastTestSupport
import StalecastWire
import Testing

/// Numbers from outside may be any. Nothing here expects a particular answer but that there is one: a trap ends the
/// process, and with it the tests.
@Suite struct BoundaryNumberTests {
    @Test(arguments: boundaryNumbers) func aVersionIsInRangeOrNone(text: String) throws {
        if let version = VersionNumber(text) {
            #expect(version >= 0 && version <= .max)
            // Arithmetic with any two of them.
            for other in boundaryNumbers.compactMap({ VersionNumber($0) }) {
                #expect(abs(version - other) <= VersionNumber.max.rawValue)
                #expect((version + Int.max) <= .max && (version - Int.max) >= 0 && (version - Int.min) >= 0)
                // A thousand differences are summed up somewhere.
                #expect(Int64(1000).multipliedReportingOverflow(by: version - other).overflow == false)
            }
            if let next = version.next { #expect(next - version == 1) } else { #expect(version == .max) }
        }
        if let number = Int64(text) {
            #expect((0...VersionNumber.max.rawValue).contains(VersionNumber(clamping: number).rawValue))
        }
    }

    @Test(arguments: boundaryNumbers) func numbersInJSONAreReadOrNot(text: String) throws {
        guard let value = try? JSONValue.parse(text.utf8) else { return }
        _ = (value.int64, value.versionNumber)
        if let number = Double(text) {
            #expect(try JSONValue.parse(JSONValue.double(number).encoded()).kind != "a string")
        }
    }

    @Test(arguments: boundaryNumbers) func momentsAreReadAndWritten(text: String) {
        for time in [text, "\(text)-01-01T00:00:00Z", "2026-01-01T00:00:00.\(text)Z", "2026-01-01T00:00:00+\(text):00"]
        {
            if let time = Timestamp(time) { #expect(Timestamp(time.description) == time) }
        }
        if let number = Int64(text) { #expect(!Timestamp(microseconds: number).description.isEmpty) }
    }

    @Test func aDurationInWholeUnitsIsCutAtBothEnds() {
        let wait = Duration.milliseconds(1500) + .nanoseconds(999)
        #expect(wait.milliseconds == 1500 && wait.microseconds == 1_500_000 && wait.nanoseconds == 1_500_000_999)
        for longest in [Duration.seconds(Int64.max), .seconds(Int64.max) + .nanoseconds(999_999_999)] {
            #expect(longest.milliseconds == .max && longest.microseconds == .max && longest.nanoseconds == .max / 2)
            #expect(Timestamp(microseconds: .max).advanced(by: longest).microseconds == .max)
        }
        for none in [Duration.seconds(Int64.min), .nanoseconds(-1), .zero] {
            #expect(none.milliseconds == 0 && none.microseconds == 0 && none.nanoseconds == 0)
        }
        #expect(Timestamp(microseconds: .min).advanced(by: .seconds(Int64.min)).microseconds == .min)
    }

    @Test(arguments: boundaryNumbers) func cursorsAndStreamsAreReadOrNot(text: String) throws {
        let cursor = "abcdefghijklmnopqrstuvwxyz.\(text)"
        #expect(Cursor(cursor)?.description ?? cursor == cursor)
        var parser = SSEParser()
        for case .retry(let delay) in try parser.receive("retry: \(text)\n".utf8) { #expect(delay >= 0) }
    }
}
