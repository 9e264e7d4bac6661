import StalecastAccess
import StalecastWire
import Testing

@Suite struct APIKeyTests {
    private static func made(_ kind: APIKey.Kind = .secret) -> APIKey {
        var random = SystemRandomNumberGenerator()
        return APIKey(kind, using: &random)
    }

    @Test(arguments: APIKey.Kind.allCases) func aNewKeyIsRead(kind: APIKey.Kind) throws {
        let key = Self.made(kind)
        #expect(try APIKey(key.text) == key)
        #expect(key.text.utf8.count == 66 && key.text.hasPrefix("stc_\(kind.rawValue)_\(key.id)_"))
    }

    /// Checksum as zlib and Python compute it; keys that were given out must be read for ever.
    @Test func theChecksumStaysWhatItIs() throws {
        let key = try APIKey("stc_s_0123456789_" + String(repeating: "a", count: 43) + "1zA8K8")
        #expect(key.id == "0123456789")
    }

    @Test func everySingleTypingErrorIsSeen() {
        let text = Array(Self.made().text)
        for index in 4..<text.count where text[index] != "_" {
            var wrong = text
            wrong[index] = text[index] == "x" ? "y" : "x"
            #expect(throws: APIKey.Flaw.typo) { try APIKey(String(wrong)) }
        }
    }

    @Test(arguments: ["", "stc", "AIzaSyA-0123456789", "STC_s_", "st\u{441}_s_0123456789_"])
    func whatDoesNotBeginAsOursIsForeign(text: String) {
        #expect(throws: APIKey.Flaw.foreign) { try APIKey(text) }
    }

    @Test func cutLengthenedOrPaddedIsATypo() {
        let text = Self.made().text
        for wrong in [String(text.dropLast()), text + "0", text + " ", text + "\0", text + "=", "stc_", "stc_x_a_b"] {
            #expect(throws: APIKey.Flaw.typo) { try APIKey(wrong) }
        }
    }

    @Test func digestsAreReadAsTheyAreWritten() {
        let digest = Self.made().digest
        #expect(SecretDigest(hexadecimal: digest.hexadecimal) == digest)
        #expect(SecretDigest(hexadecimal: String(digest.hexadecimal.dropLast())) == nil)
        #expect(digest.matches(digest) && !digest.matches(SecretDigest(of: "else")))
    }

    @Test func aRecordIsReadAsItWasWritten() throws {
        var made = MadeKey(.publishable, [Grant(role: .viewer), Grant(actions: [.watch])])
        made.key.name = "ci é"
        made.key.expiresAt = Timestamp(microseconds: 1_900_000_000_000_000)
        made.key.rotate(to: Self.made().digest, at: Timestamp(microseconds: 1_800_000_000_000_000))
        #expect(try AccessKey(record: made.key.record) == made.key)
        let shown = made.key.document(at: Timestamp(microseconds: 1_800_000_000_000_000)).text()
        for secret in made.key.secrets { #expect(!shown.contains(secret.digest.hexadecimal)) }
    }

    @Test func whatIsRevokedStaysRevokedUnderAnOlderRecord() {
        let made = MadeKey(.secret, [Grant(role: .viewer)])
        let authorizer = Authorizer()
        var revoked = made.key
        revoked.revokedAt = Timestamp(microseconds: 1)
        authorizer.put(revoked)
        authorizer.put(made.key)
        #expect(authorizer.key(made.key.id)?.key.revokedAt == revoked.revokedAt)
        #expect(authorizer.denial(.bearer(made.text)) == .revoked)
    }

    @Test func whatANewerProgramAddedToARecordStays() throws {
        var made = MadeKey(.secret, [Grant(role: .viewer)])
        var stored = try #require(made.key.record.object)
        stored["expires"] = "2030-01-01T00:00:00Z"
        stored["new"] = ["kept"]
        made.key.revokedAt = Timestamp(microseconds: 1_800_000_000_000_000)
        var expected = try #require(made.key.record.object)
        #expect(made.key.record(over: nil) == .object(expected))
        expected["new"] = ["kept"]
        #expect(made.key.record(over: .object(stored)) == .object(expected))
    }
}
