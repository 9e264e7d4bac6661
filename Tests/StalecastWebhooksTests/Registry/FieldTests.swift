import StalecastOutbound
import StalecastWebhooks
import StalecastWire
import Testing

/// Every refusal names the field that is wrong, whether a webhook is made or changed.
@Suite struct FieldTests {
    private static let good: JSONObject = ["url": "https://example.com/hook"]

    static let refused: [(field: String, document: JSONValue)] = [
        ("url", ["topics": ["PUSH_RC"]]), ("url", ["url": 7]), ("url", ["url": "ftp://example.com"]),
        ("url", ["url": "https://u:p@example.com"]), ("url", ["url": "https://example.com/#f"]),
        ("url", ["url": "https://example.com/a b"]), ("url", ["url": "https://example.com/\r\nX: y"]),
        ("url", ["url": "https://"]), ("url", ["url": "file:///etc/passwd"]), ("url", ["url": ""]),
        ("url", ["url": "http://169.254.169.254/latest"]), ("url", ["url": "http://10.0.0.1/"]),
        ("url", ["url": "http://[::1]/"]), ("url", ["url": "http://2852039166/"]),
        ("url", ["url": "http://0xA9FEA9FE/"]), ("url", ["url": "http://[::ffff:10.0.0.1]/"]),
        ("url", ["url": "http://8.8.8.8:22/"]), ("url", ["url": "http://example.com:0/"]),
        ("url", ["url": "http://example.com:22/"]), ("url", ["url": "https://example.com:1023/"]),
        ("url", ["url": "http://a..example/"]), ("url", ["url": "http://.example/"]), ("url", ["url": "http://a../"]),
        ("url", ["url": .string("http://\(String(repeating: "a", count: 64)).example/")]),
        ("url", ["url": .string("http://\(String(repeating: "a.", count: 126))aa/")]),
        ("url", ["url": "http://1.2.3.4.5/"]), ("url", ["url": "http://4294967296/"]),
        ("url", ["url": "http://a.example.7./"]), ("url", ["url": "http://a.0x7f/"]), ("url", ["url": "http://a.0x/"]),
        ("url", ["url": "http://a!b.example/"]),
        ("topics", ["topics": []]), ("topics", ["topics": "PUSH_RC"]), ("topics[1]", ["topics": ["news", "nobody"]]),
        ("topics[0]", ["topics": ["a b"]]), ("topics[1]", ["topics": ["news", "news"]]), ("topics[0]", ["topics": [1]]),
        ("format", ["format": "xml"]), ("format", ["format": 1]), ("mode", ["mode": "some"]),
        ("headers", ["headers": ["a"]]), ("headers[X-A]", ["headers": ["X-A": "b\r\nEvil: 1"]]),
        ("headers[X-A]", ["headers": ["X-A": "b\u{0}c"]]), ("headers[X-A]", ["headers": ["X-A": 1]]),
        ("headers[X A]", ["headers": ["X A": "b"]]), ("headers[]", ["headers": ["": "b"]]),
        ("headers[X-A\r\nEvil]", ["headers": ["X-A\r\nEvil": "b"]]), ("headers[Host]", ["headers": ["Host": "b"]]),
        ("headers[Webhook-Signature]", ["headers": ["Webhook-Signature": "v1,"]]),
        ("headers[ce-id]", ["headers": ["ce-id": "1"]]), ("headers[x-a]", ["headers": ["X-A": "1", "x-a": "2"]]),
        ("headers[Content-Length]", ["headers": ["Content-Length": "0"]]),
        ("headers[X-A]", ["headers": ["X-A": "é"]]),
        ("headers[Authorization]", ["headers": ["Authorization": "(hidden)"]]),
        ("limits", ["limits": 5]), ("limits.maxPerSecond", ["limits": ["maxPerSecond": 0]]),
        ("limits.maxPerSecond", ["limits": ["maxPerSecond": 1001]]),
        ("limits.maxPerSecond", ["limits": ["maxPerSecond": "5"]]), ("limits.timeout", ["limits": ["timeout": "61s"]]),
        ("limits.timeout", ["limits": ["timeout": "0.5s"]]), ("limits.timeout", ["limits": ["timeout": "5"]]),
        ("limits.timeout", ["limits": ["timeout": 5]]), ("limits.minInterval", ["limits": ["minInterval": "-1s"]]),
        ("limits.minInterval", ["limits": ["minInterval": "86401s"]]), ("limits.burst", ["limits": ["burst": 1]]),
        ("tls.caFile", ["tls": ["caFile": "../../etc/passwd"]]), ("tls.caFile", ["tls": ["caFile": "nothing.pem"]]),
        ("tls.caFile", ["tls": ["caFile": "/etc/passwd"]]), ("tls.caFile", ["tls": ["caFile": ".."]]),
        ("addressProfile", ["addressProfile": "none"]),
        ("fcm.serviceAccountFile", ["format": "fcm"]),
        ("fcm.serviceAccountFile", ["format": "fcm", "fcm": ["serviceAccountFile": "nothing.json"]]),
        ("fcm", ["fcm": ["tokenUrl": "https://example.com"]]),
        ("verification.method", ["verification": ["method": "email"]]), ("verification", ["verification": "none"]),
        ("description", ["description": .string(String(repeating: "x", count: 257))]),
        ("paused", ["paused": "yes"]), ("colour", ["colour": "red"]),
        ("signing.algorithm", ["signing": ["algorithm": "rsa"]]),
        ("signing.secret", ["signing": ["secret": "whsec_short"]]), ("signing.secret", ["signing": ["secret": 1]]),
        ("signing", ["signing": "x"]),
    ]

    @Test(arguments: refused.indices) func theFieldIsNamed(index: Int) async throws {
        let (field, document) = Self.refused[index]
        let fixture = try RegistryFixture()
        let registry = try fixture.open(allowed: [])
        var merged = document["topics"] == ["PUSH_RC"] ? JSONObject() : Self.good
        for (name, value) in document.object!.members { merged[name] = value }
        let problem = await #expect(throws: RegistryProblem.self, "\(document)") {
            try await registry.create(.object(merged), in: .demo)
        }
        guard case .invalid(let named, let sentence)? = problem else {
            Issue.record("\(document): \(String(describing: problem))")
            return
        }
        #expect(named == field, "\(document): \(sentence)")
        #expect(registry.webhooks.isEmpty)
    }

    @Test(arguments: [
        "https://example.com", "http://example.com:8080/x?y=z", "https://8.8.8.8/", "https://[2606:4700::1111]/",
        "http://example.com:1024/", "http://example.com./", "http://_a.b-c.xn--bcher-kva.example/", "http://7.a7/",
        "http://\(String(repeating: "a", count: 63)).\(String(repeating: "b.", count: 94))a/",
    ])
    func anOrdinaryURLIsTaken(url: String) async throws {
        let registry = try RegistryFixture().open(allowed: [])
        let made = try await registry.create(["url": .string(url)], in: .demo)
        #expect(made.webhook.url.host == made.webhook.url.host.lowercased())
    }

    @Test func theOperatorsRulesCount() async throws {
        let fixture = try RegistryFixture()
        let secure = try fixture.open(allowed: ["127.0.0.1"], httpsOnly: true)
        _ = try await secure.create(["url": "https://127.0.0.1:1234/"], in: .demo)
        for url in ["http://127.0.0.1:1234/", "https://127.0.0.2:1234/", "https://192.168.1.1/"] {
            await #expect(throws: RegistryProblem.self, "\(url)") {
                try await secure.create(["url": .string(url)], in: .demo)
            }
        }
        _ = try await secure.create(["url": "https://192.168.1.1/", "addressProfile": "internal"], in: .demo)
        await #expect(throws: RegistryProblem.self) {
            try await secure.create(["url": "https://169.254.1.1/", "addressProfile": "internal"], in: .demo)
        }
    }

    /// A name may lead to an allowed address, whose ports are free; nothing is ever called at port 0.
    @Test func anAllowedAddressMayHaveAnyPort() async throws {
        let registry = try RegistryFixture().open(allowed: ["10.0.0.0/8"])
        _ = try await registry.create(["url": "http://intranet.example:22/"], in: .demo)
        for url in ["http://intranet.example:0/", "http://10.0.0.1:0/"] {
            await #expect(throws: RegistryProblem.self) { try await registry.create(["url": .string(url)], in: .demo) }
        }
    }

    @Test func theDaemonsOwnMembersArePassedOver() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let first = try await registry.create(["url": "https://example.com"], in: .demo)
        let shown = first.documentWithSecret(at: fixture.now)
        let copy = try await registry.create(.object(shown), in: .demo)
        #expect(copy.webhook.id != first.webhook.id)
        // The shown secret is an input as well: a copy of a webhook signs as the original does.
        #expect(copy.keys.map(\.key) == first.keys.map(\.key))
    }

    @Test(arguments: [
        ("15s", 15_000_000), ("0.5s", 500_000), ("0.000001s", 1), ("86400s", 86_400_000_000), ("1.250s", 1_250_000),
    ])
    func durationsAreWrittenAsProtobufDoes(text: String, micros: Int64) {
        #expect(Duration(wireText: text) == .microseconds(micros))
        #expect(Duration(wireText: Duration.microseconds(micros).wireText) == .microseconds(micros))
    }

    @Test(arguments: ["", "s", "5", "5m", "-1s", "+1s", "1.s", ".5s", "1.0000000001s", "1e3s", "9999999999999s"])
    func otherDurationsAreRefused(text: String) { #expect(Duration(wireText: text) == nil) }
}
