import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct BoundaryNumberTests {
    @Test(arguments: boundaryNumbers) func durationsAreReadAndWritten(text: String) {
        for wire in ["\(text)s", "0.\(text)s", "\(text).5s", text] {
            if let duration = Duration(wireText: wire) { #expect(Duration(wireText: duration.wireText) != nil) }
        }
        // As the configuration file has them, which are spelled for a message.
        if let seconds = Int64(text) { #expect(Duration.seconds(seconds).wireText.hasSuffix("s")) }
    }

    @Test(arguments: boundaryNumbers) func settingsAreInRangeOrRefused(text: String) throws {
        for (field, value) in [("timeout", "\"\(text)s\""), ("minInterval", "\"\(text)s\""), ("maxPerSecond", text)] {
            guard let json = try? JSONValue.parse(#"{"limits":{"\#(field)":\#(value)}}"#.utf8) else { continue }
            var draft = WebhookDraft()
            try? draft.take(json, files: .within("/etc/hooks"))
            #expect(draft.limits.timeout >= .zero && draft.limits.timeout <= .seconds(3600))
        }
    }

    @Test(arguments: boundaryNumbers) func timesOfSignaturesAreJudged(text: String) throws {
        let key = try VerificationKey("whsec_" + String(repeating: "A", count: 32))
        for now in [nil, Int64.min, 0, .max].map({ $0.map(Timestamp.init(microseconds:)) }) {
            #expect(throws: SignatureCheck.Problem.self) {
                try SignatureCheck(key: key).verify(
                    messageID: "a", timestamp: text, signatures: "v1,AAAA", body: [], at: now)
            }
        }
    }
}
