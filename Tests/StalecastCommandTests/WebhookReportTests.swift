import StalecastWire
import Testing
import stalecast

@Suite struct WebhookReportTests {
    /// Strangers write these: owners through the API, receivers in their answers.
    private static let nasty = "\u{1B}]0;pwned\u{7}\u{9B}31m\u{202E}red\r\n"
    private static let webhook: JSONValue = [
        "id": .string(nasty), "url": .string(nasty), "topics": [.string(nasty)], "description": .string(nasty),
        "format": .string(nasty), "mode": .string(nasty), "configuredAs": .string(nasty),
        "headers": .object([nasty: .string(nasty)]), "tls": ["caFile": .string(nasty)],
        "fcm": ["serviceAccountFile": .string(nasty)],
        "state": ["name": "disabled", "reason": .string(nasty), "since": .string(nasty)],
    ]

    @Test func nothingInAWebhookCanPlayWithTheTerminal() {
        let text = WebhookReport(Self.webhook).lines(Palette(isOn: false)).joined()
        #expect(text.contains("red"))
        #expect(
            !text.unicodeScalars.contains { "\u{1B}\u{7}\u{9B}\u{202E}\r\n".unicodeScalars.contains($0) }, "\(text)")
    }

    @Test func whyTheLastAttemptFailedIsSaid() {
        let failure: JSONValue = [
            "time": "2026-11-21T10:00:00Z", "outcome": "5xx", "status": 500, "problem": "status 500",
            "response": .string("database is locked " + String(repeating: "x", count: 500)),
        ]
        let webhook: JSONValue = ["delivery": ["lastFailure": failure]]
        let line = WebhookReport(webhook).lines(Palette(isOn: false)).first { $0.hasPrefix("failed") }
        #expect(line?.contains("500: database is locked") == true && (line?.count ?? 0) < 130)
        let redirect: JSONValue = ["outcome": "3xx", "status": 301, "problem": "not followed", "response": "<html>"]
        #expect(WebhookAttemptText(redirect).outcome == "301: not followed")
        #expect(WebhookAttemptText(["outcome": "2xx", "status": 200, "response": "fine"]).outcome == "200")
    }

    @Test func aTryThatWillNotBeMadeIsNotListed() throws {
        let attempts: [JSONValue] = [("3", 2), ("2", 1), ("3", 1)].map { version, number in
            [
                "kind": "stale", "namespace": "firebase", "versionNumber": .string(version), "attempt": .int(number),
                "nextAttemptTime": "2026-11-21T10:00:00Z",
            ]
        }
        let before = try #require(Timestamp("2026-11-21T09:00:00Z"))
        func listed(_ mode: String, _ now: Timestamp) -> [Int] {
            attempts.indices.filter {
                !WebhookAttemptText(attempts[$0]).nextTry(after: attempts[..<$0], mode: mode, now: now).isEmpty
            }
        }
        #expect(listed("all", before) == [0, 1] && listed("latest", before) == [0])
        #expect(listed("all", Timestamp(microseconds: before.microseconds + 7_200_000_000)).isEmpty)
    }

    @Test func onlyTheStateHasColour() {
        let lines = WebhookReport(Self.webhook).lines(Palette(isOn: true))
        let coloured = lines.filter { $0.contains("\u{1B}") }
        #expect(coloured.count == 1 && coloured[0].hasPrefix("state"))
        #expect(coloured[0].count { $0 == "\u{1B}" } == 2)
    }
}
