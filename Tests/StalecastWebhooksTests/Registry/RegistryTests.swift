import Foundation
import StalecastOutbound
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct RegistryTests {
    @Test func anIdIsReadAsItIsPrintedAndSortsAsItsText() {
        var random = SeededRandom(seed: 7)
        let ids = (0..<200).map { _ in WebhookID.random(using: &random) }
        #expect(ids.allSatisfy { WebhookID($0.description) == $0 && $0.description.utf8.count == 23 })
        #expect(ids.sorted().map(\.description) == ids.map(\.description).sorted())
        #expect(WebhookID("wh_abcdefghij234567wxyz")?.description == "wh_abcdefghij234567wxyz")
        for text in [
            "", "wh_", "abcdefghij234567wxyz", "wh_abcdefghij234567wxy", "wh_abcdefghij234567wxyza",
            "wh_abcdefghij134567wxyz", "wh_abcdefghij834567wxyz", "wh_Abcdefghij234567wxyz", "wh_abcdefghij23456 wxyz",
        ] { #expect(WebhookID(text) == nil, "\(text)") }
    }

    @Test func whatIsRegisteredIsThereAfterARestart() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let document: JSONValue = [
            "url": "https://example.com/hook?a=1", "topics": ["news", "PUSH_RC"], "mode": "fifo-advance",
            "headers": ["X-Team": "blue", "Authorization": "Bearer abc"],
            "limits": ["maxPerSecond": .double(2.5), "timeout": "7.25s", "minInterval": "60s"],
            "addressProfile": "internal", "description": "for é", "paused": true,
            "verification": ["method": "challenge"],
        ]
        let made = try await registry.create(document, in: .demo)
        registry.close()
        let again = try fixture.open()
        let entry = try again.entry(made.webhook.id, in: .demo)
        #expect(entry.webhook == made.webhook)
        #expect(entry.keys == made.keys && entry.keys.count == 1)
        #expect(again.entries(of: .demo).map(\.webhook.id) == [made.webhook.id])
        let settings = entry.webhook.document(hidesCredentials: false)
        for (name, value) in document.object!.members { #expect(settings[name] == value, "\(name)") }
    }

    @Test func aSecretIsShownOnceAndHeadersThatLookLikeOneNever() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let entry = try await registry.create(
            ["url": "https://example.com", "headers": ["X-Api-Key": "k", "X-Team": "blue"]], in: .demo)
        let first = JSONValue.object(entry.documentWithSecret(at: fixture.now))
        let secret = try #require(first["signing"]?["secret"]?.string)
        #expect(secret.hasPrefix("whsec_"))
        let later = JSONValue.object(try registry.entry(entry.webhook.id, in: .demo).document(at: fixture.now))
        #expect(!later.text().contains(secret.dropFirst(6)))
        #expect(later["headers"] == ["X-Api-Key": "(hidden)", "X-Team": "blue"])
        #expect(later["signing"]?["algorithm"] == "hmac-sha256")
        // What an answer showed can be sent back.
        let updated = try await registry.update(
            entry.webhook.id, in: .demo, ["headers": ["X-Api-Key": "(hidden)", "X-New": "1"]], mask: nil, etag: nil)
        #expect(updated.webhook.headers.map(\.value) == ["k", "1"])
    }

    @Test func hiddenHeadersDoNotFollowTheURLToAnotherOrigin() async throws {
        let registry = try RegistryFixture().open()
        let made = try await registry.create(
            ["url": "https://example.com/a", "headers": ["X-Api-Key": "k", "X-Team": "blue"]], in: .demo)
        let id = made.webhook.id
        let others = ["https://example.org/a", "http://example.com/a", "https://example.com:8443/a"]
        let hidings: [JSONObject] = [[:], ["headers": ["X-Api-Key": "(hidden)"]]]
        for url in others {
            for hiding in hidings {
                var request = hiding
                request["url"] = .string(url)
                let error = await #expect(throws: RegistryProblem.self) {
                    try await registry.update(id, in: .demo, .object(request), mask: nil, etag: nil)
                }
                guard case .invalid("headers[X-Api-Key]", _)? = error else {
                    Issue.record("\(url): \(error.map { "\($0)" } ?? "not refused")")
                    continue
                }
            }
        }
        // The mask keeps the webhook's headers and ignores those of the document.
        await #expect(throws: RegistryProblem.self) {
            try await registry.update(
                id, in: .demo, ["url": .string(others[0]), "headers": [:]], mask: ["url"], etag: nil)
        }
        _ = try await registry.update(id, in: .demo, ["url": "https://example.com/b"], mask: nil, etag: nil)
        let moved = try await registry.update(
            id, in: .demo, ["url": .string(others[0]), "headers": ["x-api-key": "k"]], mask: nil, etag: nil)
        #expect(moved.webhook.url.text == others[0] && moved.webhook.headers.map(\.value) == ["k"])
        let bare = try await registry.update(
            id, in: .demo, ["url": .string(others[1]), "headers": ["X-Team": "red"]], mask: nil, etag: nil)
        #expect(bare.webhook.headers.map(\.value) == ["red"])
    }

    @Test func aDurationThatIsTooLongForMicrosecondsIsSpelled() {
        let absurd = Duration.seconds(9_000_000_000_000_000)
        #expect(absurd.wireText == "9000000000000000s")
        #expect((absurd + .milliseconds(250)).wireText == "9000000000000000.25s")
    }

    @Test func nothingSecretIsReadableInTheDatabase() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let entry = try await registry.create(
            ["url": "https://example.com/s3cr3tpath", "headers": ["X-Team": "s3cr3tvalue"]], in: .demo)
        let secret = String(entry.keys[0].key.secretText.dropFirst(6))
        registry.close()
        var bytes = Data()
        for name in try FileManager.default.contentsOfDirectory(atPath: fixture.directory) where name.contains("sqlite")
        {
            bytes += try Data(contentsOf: URL(fileURLWithPath: "\(fixture.directory)/\(name)"))
        }
        #expect(bytes.count > 4096)
        for text in ["s3cr3tpath", "s3cr3tvalue", secret] { #expect(bytes.range(of: Data(text.utf8)) == nil) }
        #expect(bytes.range(of: Data(entry.webhook.id.description.utf8)) != nil)
        let key = try FileManager.default.attributesOfItem(atPath: "\(fixture.directory)/webhooks.key")
        #expect(key[.posixPermissions] as? Int == 0o600)
    }

    @Test func withAnotherKeyOrNoneItDoesNotStart() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        _ = try await registry.create(["url": "https://example.com/a"], in: .demo)
        registry.close()
        let path = "\(fixture.directory)/webhooks.key"
        let right = try String(contentsOfFile: path, encoding: .utf8)
        _ = try fixture.write(Base64.encode([UInt8](repeating: 7, count: 32)), to: "webhooks.key")
        func refusal() -> String {
            do {
                try fixture.open().close()
                return ""
            } catch { return "\(error)" }
        }
        #expect(refusal().hasPrefix("the key file \(path) is not the key webhooks.sqlite was sealed with"))
        _ = try fixture.write("not a key", to: "webhooks.key")
        #expect(refusal() == "the key file \(path) does not hold 32 bytes in base64 or hexadecimal")
        try FileManager.default.removeItem(atPath: path)
        #expect(refusal().hasPrefix("the key file \(path) is missing, but webhooks.sqlite holds secrets"))
        #expect(!FileManager.default.fileExists(atPath: path))
        let elsewhere = try fixture.write(right, to: "credential")
        try fixture.open(keyFile: elsewhere).close()
        let hexadecimal = Base64.decode(right.filter { $0 != "\n" })!.map { String(format: "%02x", $0) }.joined()
        try fixture.open(keyFile: try fixture.write(hexadecimal, to: "hexadecimal")).close()
    }

    @Test func withoutAWebhookAMissingKeyIsMadeAnew() async throws {
        let fixture = try RegistryFixture()
        try fixture.open().close()
        try FileManager.default.removeItem(atPath: "\(fixture.directory)/webhooks.key")
        try fixture.open().close()
        let registry = try fixture.open()
        _ = try await registry.create(["url": "https://example.com/a"], in: .demo)
        registry.close()
        try FileManager.default.removeItem(atPath: "\(fixture.directory)/webhooks.key")
        #expect(throws: VaultKey.Problem.self) { try fixture.open() }
    }

    @Test func anUpdateSetsWhatItsMaskNames() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let made = try await registry.create(
            ["url": "https://example.com/a", "limits": ["timeout": "7s", "minInterval": "60s"], "description": "x"],
            in: .demo)
        let id = made.webhook.id
        fixture.advance(by: 5)
        let one = try await registry.update(id, in: .demo, ["limits": ["timeout": "9s"]], mask: nil, etag: nil)
        #expect(one.webhook.limits.timeout == .seconds(9) && one.webhook.limits.minInterval == .seconds(60))
        #expect(one.webhook.generation == 2 && one.webhook.updatedAt == fixture.now)
        let two = try await registry.update(id, in: .demo, ["mode": "all"], mask: ["limits", "description"], etag: nil)
        #expect(two.webhook.limits == WebhookLimits() && two.webhook.description == "" && two.webhook.mode == .latest)
        let same = try await registry.update(id, in: .demo, two.webhook.documentValue, mask: nil, etag: nil)
        #expect(same.webhook.generation == 3)
        await #expect(throws: RegistryProblem.self) {
            try await registry.update(id, in: .demo, ["url": "https://b.example"], mask: ["uri"], etag: nil)
        }
    }

    @Test func ofManyUpdatesWithOneETagOneSucceeds() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let made = try await registry.create(["url": "https://example.com/a"], in: .demo)
        let results = await withTaskGroup(of: RegistryProblem?.self) { group in
            for number in 0..<20 {
                group.addTask {
                    do throws(RegistryProblem) {
                        _ = try await registry.update(
                            made.webhook.id, in: .demo, ["description": .string("\(number)")], mask: nil,
                            etag: made.webhook.etag)
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.count { $0 == nil } == 1)
        #expect(results.count { $0 == .changedMeanwhile } == 19)
        await #expect(throws: RegistryProblem.changedMeanwhile) {
            try await registry.delete(made.webhook.id, in: .demo, etag: made.webhook.etag)
        }
    }

    @Test func changesAreToldInOrderAndOnlyWhenSomethingChanged() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let heard = Heard()
        registry.observe(heard.hear)
        let made = try await registry.create(["url": "https://example.com/a"], in: .demo)
        let id = made.webhook.id
        _ = try await registry.setPaused(true, id, in: .demo)
        _ = try await registry.setPaused(true, id, in: .demo)
        _ = try await registry.setPaused(false, id, in: .demo)
        _ = try await registry.rotateSecret(of: id, in: .demo, [:])
        try await registry.delete(id, in: .demo, etag: nil)
        #expect(heard.all == ["1", "2", "3", "4", "removed"])
        await #expect(throws: RegistryProblem.notFound(id.description)) {
            try await registry.setPaused(true, id, in: .demo)
        }
        #expect(registry.signer(of: id) == nil)
    }

    @Test func anotherProjectsWebhookIsNotThere() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let made = try await registry.create(["url": "https://example.com/a"], in: .demo)
        let other = try ProjectID("other")
        #expect(throws: RegistryProblem.notFound(made.webhook.id.description)) {
            try registry.entry(made.webhook.id, in: other)
        }
        #expect(registry.entries(of: other).isEmpty)
    }

    @Test func aProjectHasItsLimit() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open(maxPerProject: 2)
        for _ in 0..<2 { _ = try await registry.create(["url": "https://example.com/a"], in: .demo) }
        await #expect(throws: RegistryProblem.tooMany(limit: 2)) {
            try await registry.create(["url": "https://example.com/a"], in: .demo)
        }
        _ = try await registry.create(["url": "https://example.com/a"], in: ProjectID("other"))
    }

    @Test func whatIsRemovedOrConfiguredTakesNoRoom() async throws {
        let fixture = try RegistryFixture()
        var registry = try fixture.open(maxPerProject: 2)
        var draft = WebhookDraft()
        draft.url = try OutboundURL("https://example.com/configured")
        let configured = ConfiguredWebhook(name: "c", project: .demo, draft: draft, keys: [.generate(.hmacSHA256)])
        try registry.setConfigured([configured])
        let first = try await registry.create(["url": "https://example.com/a"], in: .demo)
        _ = try await registry.create(["url": "https://example.com/b"], in: .demo)
        _ = try await registry.setPaused(true, first.webhook.id, in: .demo)
        try await registry.delete(first.webhook.id, in: .demo, etag: nil)
        registry.close()
        registry = try fixture.open(maxPerProject: 2)
        _ = try await registry.create(["url": "https://example.com/c"], in: .demo)
        await #expect(throws: RegistryProblem.tooMany(limit: 2)) {
            try await registry.create(["url": "https://example.com/d"], in: .demo)
        }
    }

    @Test func consentCountsForTheURLItWasGivenTo() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let made = try await registry.create(
            ["url": "https://example.com/a", "verification": ["method": "cloudevents"]], in: .demo)
        #expect(!made.webhook.isDeliverable)
        let agreed = try await registry.recordConsent(made.webhook, allowedPerMinute: 120)
        #expect(agreed.webhook.isDeliverable && agreed.webhook.ratePerSecond == 2)
        let moved = try await registry.update(
            made.webhook.id, in: .demo, ["url": "https://example.com/b"], mask: nil, etag: nil)
        #expect(!moved.webhook.isDeliverable && moved.webhook.ratePerSecond == nil)
        await #expect(throws: RegistryProblem.self) {
            try await registry.recordConsent(made.webhook, allowedPerMinute: nil)
        }
    }
}

extension Webhook {
    fileprivate var documentValue: JSONValue { .object(document(hidesCredentials: true)) }
}
