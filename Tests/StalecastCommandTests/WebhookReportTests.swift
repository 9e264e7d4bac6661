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

    @Test func onlyTheStateHasColour() {
        let lines = WebhookReport(Self.webhook).lines(Palette(isOn: true))
        let coloured = lines.filter { $0.contains("\u{1B}") }
        #expect(coloured.count == 1 && coloured[0].hasPrefix("state"))
        #expect(coloured[0].count { $0 == "\u{1B}" } == 2)
    }
}
