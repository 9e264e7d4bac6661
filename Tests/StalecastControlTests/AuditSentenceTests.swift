import StalecastControl
import StalecastWire
import Testing

@Suite("The audit log in words")
struct AuditSentenceTests {
    private static func read(_ members: JSONObject) -> AuditSentence { AuditSentence(members) }

    @Test func thePersonIsNamedBesideTheCredential() {
        #expect(Self.read(["actor": "bootstrap"]).actor == "control token")
        #expect(Self.read(["actor": "bootstrap", "user": "control token"]).actor == "control token")
        #expect(Self.read(["actor": "bootstrap", "user": "ann"]).actor == "ann (control token)")
        #expect(Self.read(["actor": "key:1", "user": "ci"]).actor == "ci (key:1)")
        #expect(Self.read([:]).actor == "stalecast")
    }

    private static let shop = Scope(project: .demo, namespace: .firebase)

    @Test func aPublishIsToldWithItsKeys() {
        let line: JSONObject = [
            "action": "publishTemplate", "version": "3", "changedKeys": ["a", "b", "c", "d", "e", "f"],
            "actor": "key:1",
            "project": "demo", "namespace": "firebase", "outcome": "ok",
        ]
        let entry = Self.read(line)
        #expect(entry.sentence == "demo/firebase: published version 3 (a, b, c, d, e and 1 more)")
        #expect(entry.actor == "key:1" && !entry.isRefused && entry.concerns(Self.shop))
    }

    @Test(arguments: [
        ("rollbackTemplate", "demo/firebase: rolled back to version 1, as version 3"),
        ("createWebhook", "demo/firebase: created webhook wh_1"),
        ("sendMessage", "demo/firebase: sent message wh_1"),
        ("pauseRelease", "demo/firebase: paused release wh_1"),
        ("retryWebhook", "demo/firebase: retried webhook wh_1"),
        ("config.reload", "demo/firebase: reloaded config wh_1"),
        ("source.adopt", "demo/firebase: took version 3 from its source"),
        ("source.recover", "demo/firebase: recovered source wh_1"),
        ("webhook.disable", "demo/firebase: disabled webhook wh_1"),
        ("", "demo/firebase: did something without a name wh_1"),
        (".", "demo/firebase: did something without a name wh_1"),
    ])
    func everyActionHasWords(action: String, sentence: String) {
        let line: JSONObject = [
            "action": .string(action), "version": "3", "rollbackSource": "1", "project": "demo",
            "namespace": "firebase",
            "webhook": "wh_1",
        ]
        #expect(Self.read(line).sentence == sentence)
    }

    @Test func aRefusalSaysSo() {
        let line: JSONObject = [
            "action": "revokeKey", "key": "k", "outcome": "denied", "status": 403, "reason": "no grant",
        ]
        #expect(Self.read(line).isRefused)
        #expect(Self.read(line).sentence == "denied (403): revoke key k: no grant")
        #expect(
            Self.read(["action": "publishTemplate", "outcome": "refused", "status": 400]).sentence
                == "refused (400): publish template")
    }

    @Test func refusalsOfStrangersAreCounted() {
        let line: JSONObject = ["action": "refused", "count": 12, "reason": "edge: no credential", "example": "x"]
        #expect(Self.read(line).isRefused && Self.read(line).sentence == "refused: 12 requests: edge: no credential")
        let reason = "none" + AuditSentence.observedOnly
        let served = Self.read(["action": "refused", "count": 1, "reason": .string(reason)])
        #expect(!served.isRefused && served.sentence == "1 request: \(reason)")
    }

    @Test func linesOfOtherScopesDoNotConcernOne() {
        #expect(!Self.read(["project": "shop", "namespace": "firebase"]).concerns(Self.shop))
        #expect(!Self.read(["project": "demo", "namespace": "other"]).concerns(Self.shop))
        #expect(Self.read(["project": "demo", "action": "createWebhook"]).concerns(Self.shop))
        let publish = Self.read(["project": "demo", "action": "publishTemplate", "version": "1"])
        #expect(publish.concerns(Self.shop) && publish.scope == "demo/firebase")
        #expect(!publish.concerns(Scope(project: .demo, namespace: .firebaseServer)))
        #expect(Self.read(["action": "daemon.start"]).concerns(Self.shop))
    }

    @Test func aLineOfAnotherShapeIsRead() {
        for line: JSONObject in [
            [:], ["action": 7, "project": [], "changedKeys": "x", "time": true], ["status": .null],
        ] {
            #expect(!Self.read(line).sentence.isEmpty)
        }
    }
}
