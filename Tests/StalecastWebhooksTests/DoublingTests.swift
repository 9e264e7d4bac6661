import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

/// Tests that strangers' signatures and owners' registrations cost in proportion to their length.
@Suite struct DoublingTests {
    @Test(arguments: [
        GrowingText("v1, "), GrowingText("v1,AAAA "), GrowingText(" "), GrowingText(","),
        GrowingText("A", after: "v1,"),
        GrowingText("v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= "), GrowingText("v1a,A "), GrowingText("é"),
    ])
    func judgingSignaturesIsLinear(signatures: GrowingText) throws {
        for secret in ["whsec_" + String(repeating: "A", count: 32), "whpk_" + String(repeating: "A", count: 43) + "="]
        {
            guard let key = try? VerificationKey(secret) else { continue }
            let check = SignatureCheck(key: key)
            for size in [4096, 1 << 15] {
                try expectLinear(upTo: size, signatures.text) {
                    try check.verify(messageID: "a", timestamp: "1", signatures: $0, body: [0x78], at: nil)
                }
            }
            try expectLinear(upTo: 1 << 15, signatures.text) {
                try check.verify(messageID: $0, timestamp: $0, signatures: "v1,AAAA", body: [0x78], at: nil)
            }
        }
    }

    @Test(arguments: [
        GrowingText("\"t#\",", after: #"{"url":"https://h/","topics":["#, before: #""z"]}"#),
        GrowingText("\"t\",", after: #"{"topics":["#, before: #""z"]}"#),
        GrowingText("\"h-#\":\"v\",", after: #"{"headers":{"#, before: #""z":"v"}}"#),
        GrowingText("x", after: #"{"description":""#, before: #""}"#),
        GrowingText("x", after: #"{"url":"https://"#, before: #""}"#),
        GrowingText("9", after: #"{"limits":{"timeout":""#, before: #"s"}}"#),
        GrowingText("9", after: #"{"limits":{"maxPerSecond":"#, before: "}}"),
        GrowingText("\"k#\":1,", after: "{", before: #""z":1}"#),
        GrowingText("é", after: #"{"headers":{"#, before: #"":"v"}}"#),
    ])
    func readingAWebhookIsLinear(document: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, { try? JSONValue.parse(document.bytes($0)) }) { json in
            var draft = WebhookDraft()
            if let json { try draft.take(json, files: .within("/etc/hooks")) }
        }
    }

    @Test func readingAnUpdateMaskIsLinear() throws {
        try expectLinear(upTo: 1 << 12, { Array(repeating: "description", count: $0) }) { mask in
            var draft = WebhookDraft()
            try draft.take(["description": "a"], mask: mask, files: .within(nil))
        }
    }
}
