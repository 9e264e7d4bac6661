import Foundation
import StalecastClient
import StalecastTestSupport
import Testing

/// Numbers that a server, or a proxy before it, may send to an app.
@Suite struct BoundaryNumberTests {
    private static let url = URL(string: "http://127.0.0.1:1")!

    @Test(arguments: boundaryNumbers) func numbersOfStreamsAndPollsAreRead(number: String) throws {
        let stream = FirebaseStreamRequest(project: "demo", namespace: "firebase", apiKey: "k", appID: "1:1:ios:a") {
            ("a", "b")
        }
        for value in [number, "\"\(number)\""] {
            let message =
                "{\"latestTemplateVersionNumber\":\(value),\"sinceTemplateVersionNumber\":\(value),"
                + "\"fetchWindowMs\":\(value),\"retryIntervalSeconds\":\(value)}"
            var firebase = FirebaseDialect(endpoint: Self.url, stream, options: ConnectionOptions(), version: 0)
            _ = try firebase.receive(Array(message.utf8))
            var poll = PollDialect(StreamRequest(url: Self.url), cursor: nil, wait: 1)
            _ = try poll.receive(Array("{\"cursor\":\"a.\(number)\",\"messages\":[\(message)]}".utf8))
            _ = try? poll.end()
            var events = EventStreamDialect(StreamRequest(url: Self.url), lastEventID: nil)
            for case .retry(let seconds) in try events.receive(Array("retry: \(number)\nid: \(number)\n\n".utf8)) {
                var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 300)
                schedule.serverAsked(for: seconds)
                let delay = schedule.lost(LinkLoss(.broken, ""), upFor: 1, random: 0.5)
                #expect(delay >= 0 && delay <= ReconnectSchedule.longestServerDelay)
            }
        }
    }

    @Test(arguments: boundaryNumbers) func aHeadsNumbersAreRead(number: String) throws {
        let lines = [
            "HTTP/1.1 \(number) OK", "HTTP/1.1 200 OK", "Content-Length: \(number)", "Retry-After: \(number)", "",
        ]
        var reader = ResponseHeadReader()
        for line in lines {
            guard case .head(let head) = Array("\(line)\r\n".utf8).withUnsafeBytes({ reader.take($0) }) else {
                continue
            }
            if let wait = head.retryAfter(now: Date()) { #expect(wait >= 0 && wait <= 3600) }
        }
    }

    /// Numbers of a cache file, and of an app.
    @Test(arguments: boundaryNumbers) func anyDateIsATime(number: String) async throws {
        guard let seconds = TimeInterval(number) else { return }
        let date = Date(timeIntervalSinceReferenceDate: seconds)
        let directory = scratchDirectory()
        let server = ScriptedTransport { _, _ in .json(#"{"entries":{},"state":"UPDATE","templateVersion":"1"}"#) }
        if seconds.isFinite {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            try SealedFile(url: directory.appendingPathComponent("test@installation")).write(
                Data(#"{"id":"cAbCdEfGhIjKlMnOpQrStU","firstOpenTime":\#(seconds)}"#.utf8))
        }
        let app = StalecastApp.test(server, directory: directory)
        if seconds.isFinite { #expect(app.firstOpenTime == date) }
        app.config.setDefaults(["a": date as NSObject])
        #expect(app.config["a"].stringValue.hasSuffix("Z"))
        try await app.config.fetch(withExpirationDuration: 0)
        #expect(server.received.count == 1)
    }

    @Test(arguments: boundaryNumbers) func anAppsNumbersAreInRange(number: String) throws {
        if let wait = TimeInterval(number) {
            var poll = PollDialect(StreamRequest(url: Self.url), cursor: nil, wait: wait)
            _ = try poll.receive(Array(#"{"cursor":"a.1","messages":[]}"#.utf8))
            _ = try poll.end()
            // The first one does not wait.
            _ = poll.request()
            #expect(poll.hold >= 0 && poll.hold <= 91_800)
        }
        guard let version = Int64(number) else { return }
        for server in [LocalConfigServer(values: ["a": "1"]), LocalConfigServer(values: nil)] {
            let isThere = version == 1 && server.version == 1
            #expect((server.values(ofVersion: version) != nil) == isThere)
            #expect(server.rollback(to: version) == (isThere ? 2 : nil))
        }
    }

    @Test(arguments: boundaryNumbers) func aPauseIsBounded(number: String) throws {
        guard let seconds = TimeInterval(number) else { return }
        var throttle = FetchThrottle()
        throttle.failed(at: Date(timeIntervalSince1970: 0), random: 0.5, retryAfter: seconds)
        let again = try JSONDecoder().decode(FetchThrottle.self, from: JSONEncoder().encode(throttle))
        #expect(again == throttle)
    }
}
