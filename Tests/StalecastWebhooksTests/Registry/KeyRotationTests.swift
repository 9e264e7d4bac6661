import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct KeyRotationTests {
    private func schemes(_ registry: WebhookRegistry, _ id: WebhookID, at now: Timestamp) -> [String] {
        let text = registry.signer(of: id)?.signatures(messageID: "msg_a", timestamp: 1, body: [], at: now) ?? ""
        return text.split(separator: " ").map { String($0.prefix { $0 != "," }) }
    }

    @Test func oldKeysSignForTheGracePeriod() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let made = try await registry.create(["url": "https://example.com"], in: .demo)
        let id = made.webhook.id
        let first = made.keys[0].key
        let second = try await registry.rotateSecret(of: id, in: .demo, [:])
        #expect(second.keys.count == 2 && second.keys[1].key == first && second.keys[0].key != first)
        fixture.advance(by: 86_399)
        #expect(schemes(registry, id, at: fixture.now) == ["v1", "v1"])
        fixture.advance(by: 1)
        #expect(schemes(registry, id, at: fixture.now) == ["v1"])
    }

    @Test func aKeyNeverLivesLongerThanItWasToldFirst() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let id = try await registry.create(["url": "https://example.com"], in: .demo).webhook.id
        _ = try await registry.rotateSecret(of: id, in: .demo, ["gracePeriod": "100s"])
        let entry = try await registry.rotateSecret(
            of: id, in: .demo, ["gracePeriod": "604800s", "algorithm": "ed25519"])
        #expect(entry.keys.map(\.key.algorithm) == [.ed25519, .hmacSHA256, .hmacSHA256])
        #expect(schemes(registry, id, at: fixture.now) == ["v1a", "v1", "v1"])
        fixture.advance(by: 100)
        #expect(schemes(registry, id, at: fixture.now) == ["v1a", "v1"])
        let now = try await registry.rotateSecret(of: id, in: .demo, ["gracePeriod": "0s"])
        #expect(now.keys.map(\.key.algorithm) == [.ed25519])
        #expect(schemes(registry, id, at: fixture.now) == ["v1a"])
    }

    @Test func anyChangeRemovesKeysThatHaveExpired() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let id = try await registry.create(["url": "https://example.com"], in: .demo).webhook.id
        _ = try await registry.rotateSecret(of: id, in: .demo, ["gracePeriod": "100s"])
        fixture.advance(by: 99)
        let early = try await registry.update(id, in: .demo, ["description": "a"], mask: nil, etag: nil)
        #expect(early.keys.count == 2)
        fixture.advance(by: 1)
        let late = try await registry.update(id, in: .demo, ["description": "b"], mask: nil, etag: nil)
        #expect(late.keys.count == 1 && late.record["keys"]?.array?.count == 1)
    }

    @Test func atMostTenOldKeysStay() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let id = try await registry.create(["url": "https://example.com"], in: .demo).webhook.id
        for _ in 0..<15 { _ = try await registry.rotateSecret(of: id, in: .demo, [:]) }
        #expect(try registry.entry(id, in: .demo).keys.count == 11)
        registry.close()
        #expect(try fixture.open().entry(id, in: .demo).keys.count == 11)
    }

    @Test(
        arguments: [
            ["gracePeriod": "604801s"], ["gracePeriod": "-1s"], ["gracePeriod": 5], ["algorithm": "rsa"],
            ["secret": "x"],
        ] as [JSONValue])
    func aWrongRequestChangesNothing(request: JSONValue) async throws {
        let registry = try RegistryFixture().open()
        let made = try await registry.create(["url": "https://example.com"], in: .demo)
        await #expect(throws: RegistryProblem.self) {
            try await registry.rotateSecret(of: made.webhook.id, in: .demo, request)
        }
        #expect(try registry.entry(made.webhook.id, in: .demo).keys == made.keys)
    }

    @Test func aGivenSecretIsTakenButNotTwice() async throws {
        let registry = try RegistryFixture().open()
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        let made = try await registry.create(
            ["url": "https://example.com", "signing": ["secret": .string(secret)]], in: .demo)
        #expect(made.keys[0].key.secretText == secret)
        await #expect(throws: RegistryProblem.self) {
            try await registry.rotateSecret(of: made.webhook.id, in: .demo, ["secret": .string(secret)])
        }
    }
}
