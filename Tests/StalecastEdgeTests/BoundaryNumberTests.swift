import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastTestSupport
import StalecastWire
import Testing

/// Numbers that any client may send to Edge.
@Suite struct BoundaryNumberTests {
    @Test(arguments: boundaryNumbers) func numbersInAQueryAreReadOrRefused(text: String) {
        let number = text.replacing(" ", with: "%20")
        for query in ["wait=#", "wait=#s", "wait=#ms", "have=#", "cursor=#", "cursor=abcdefghijklmnopqrstuvwxyz.#"] {
            let query = "topic=a&" + query.replacing("#", with: number)
            let request = try? StreamRequest(
                kind: .poll, query: Array(query.utf8), headers: StreamHeaders(), maxTopics: 4)
            if let wait = request?.waitMs { #expect((0...86_400_000_000).contains(wait)) }
            if let have = request?.resume.have { #expect(have >= 0 && have <= .max) }
        }
    }

    @Test func aVersionAboveTheHighestIsToldTheHighest() {
        let error = #expect(throws: GoogleError.self) {
            try StreamRequest(
                kind: .poll, query: Array("topic=a&have=9223372036854775807".utf8), headers: StreamHeaders(),
                maxTopics: 4)
        }
        #expect(error?.message.contains("0 to 9007199254740992") == true)
    }

    @Test(arguments: boundaryNumbers) func numbersInABodyAreReadOrRefused(text: String) throws {
        for value in [text, "'\(text)'", "'\(text)-01-01T00:00:00Z'"] {
            let fields = "firstOpenTime:\(value),appVersion:\(value),customSignals:{s:\(value)}"
            let body = "{appId:'1:1:ios:a',appInstanceId:'b',appInstanceIdToken:'c',\(fields)}"
            guard let object = try? RequestBody.object(Array(body.utf8), cap: 65_536) else { continue }
            _ = try? FetchRequest.context(object, at: .now())
        }
    }
}
