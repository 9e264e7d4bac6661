import StalecastHub
import StalecastTestSupport
import Testing

@Suite struct ClientIdentityTests {
    /// Flags, combining marks and joined emoji: each is one character of many scalars.
    @Test(arguments: [
        GrowingText("\u{1F1E9}\u{1F1EA}"), GrowingText("e\u{301}"), GrowingText("\u{300}", after: "a"),
        GrowingText("\u{1F468}\u{200D}"), GrowingText("x"), GrowingText("é"),
    ])
    func aLabelIsCutInLinearTime(text: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, { String(decoding: text.bytes($0), as: UTF8.self) }) { text in
            _ = ClientIdentity("a", app: text, sdk: text)
        }
    }

    @Test(arguments: ["\u{1F1E9}\u{1F1EA}", "é", "x", "\u{10FFFF}", "e\u{301}"])
    func aLabelIsCutBetweenScalars(unit: String) throws {
        let client = try #require(ClientIdentity("a", app: "x" + String(repeating: unit, count: 100)))
        #expect((61...64).contains(client.app.utf8.count))
        #expect(!client.app.unicodeScalars.contains("\u{FFFD}"))
        #expect(("x" + String(repeating: unit, count: 100)).utf8.starts(with: client.app.utf8))
    }

    @Test func aShortLabelStaysAsItIs() {
        #expect(ClientIdentity("a", app: "shop", sdk: "web 12")?.sdk == "web 12")
    }
}
