import StalecastAccess
import StalecastDaemon
import Testing

@Suite struct ConfigurationIssuerTests {
    private func issuer(_ changes: String...) -> String { issuer(changes) }

    private func issuer(_ changes: [String]) -> String {
        var fields = [
            "name: i", "issuer: https://i", "audiences: [a]", "algorithms: [ES256]", "jwks: keys.json",
            "grantsInTokens: true",
        ]
        for change in changes {
            let name = change.prefix { $0 != ":" }
            fields.removeAll { $0.hasPrefix("\(name):") }
            fields.append(change)
        }
        return "auth:\n  issuers:\n    - " + fields.joined(separator: "\n      ") + "\n"
    }

    @Test func aWholeIssuerIsRead() throws {
        let read = try load(
            issuer(
                "jwks: https://i/keys", "caFile: ca.pem", "tokenFile: t", "types: [JWT]", "leeway: 5s",
                "maxLifetime: 1h", "rules: [{when: {sub: \"x:*\", n: 5}, role: publisher, projects: [shop]}]"))
        let issuer = try #require(read.auth.issuers.first)
        #expect(issuer.keys.isURL && issuer.keys.caFile == "ca.pem" && issuer.types == ["JWT"])
        #expect(issuer.leeway == .seconds(5) && issuer.maxLifetime == .seconds(3600) && issuer.grantsInTokens)
        #expect(issuer.rules.count == 1 && issuer.rules[0].when.count == 2)
    }

    @Test(
        "what cannot be meant is refused",
        arguments: [
            ("jwks: http://i/keys", "https://"), ("jwks: ftp://i", "http"), ("algorithms: [none]", "ES256"),
            ("algorithms: [HS256, ES256]", "stands alone"), ("audiences: []", "must not be empty"),
            ("name: A b", "a-z"),
            ("grantsInTokens: false", "could do nothing"), ("caFile: ca.pem", "for a URL"),
            ("leeway: 1h", "out of range"),
            ("maxLifetime: 1s", "out of range"), ("rules: [{when: {}, role: viewer}]", "at least one"),
            ("rules: [{when: {sub: \"*\"}, role: viewer}]", "every value"), ("rules: [{role: viewer}]", "no when"),
            ("rules: [{when: {sub: x}}]", "role or an action"), ("key: x", "unknown key"),
            ("clientSecretFile: s", "need a clientID"), ("scopes: [groups]", "need a clientID"),
        ]) func refused(change: String, words: String)
    {
        let found = problems(issuer(change))
        #expect(found.contains { $0.contains(words) }, "\(change): \(found)")
    }

    @Test func aSignInIsRead() throws {
        let read = try load(issuer("clientID: console", "clientSecretFile: s", "scopes: [openid, groups]"))
        let signIn = try #require(read.auth.issuers.first?.signIn)
        #expect(signIn.clientID == "console" && signIn.secretFile == "s" && signIn.scopes == ["groups"])
        let plain = try #require(try load(issuer("clientID: console")).auth.issuers.first?.signIn)
        #expect(plain.secretFile == nil && plain.scopes == ["profile", "email"])
        #expect(problems(issuer("clientID: c", "issuer: i")).contains { $0.contains("https URL") })
        #expect(problems(issuer("clientID: c", "scopes: [\"a b\"]")).contains { $0.contains("one word") })
        let missing = try load(issuer("jwks: https://i/keys", "clientID: c", "clientSecretFile: /nonexistent/s"))
        #expect(
            missing.issuerFileProblems.first?.hasPrefix(
                "auth.issuers[0].clientSecretFile: /nonexistent/s cannot be read") == true)
    }

    @Test func allProblemsOfAnIssuerAreSaid() {
        let found = problems(issuer("name: A b", "leeway: 1h", "rules: [{when: {sub: \"*\"}}]"))
        for words in ["a-z", "out of range", "every value", "role or an action"] {
            #expect(found.contains { $0.contains(words) }, "\(words): \(found)")
        }
        #expect(found.count == 4)
    }

    @Test func aProblemBringsNoneThatIsNotThere() {
        let changes = [
            ["grantsInTokens: perhaps"], ["grantsInTokens: false", "rules: [{when: {sub: x}}]"],
            ["jwks: http://i/keys", "caFile: ca.pem"], ["name: A b"],
        ]
        for changes in changes {
            let found = problems(issuer(changes))
            #expect(found.count == 1, "\(changes): \(found)")
        }
    }

    /// A start waits for the file; `check-config` reports that it is missing.
    @Test func aFileThatIsNoKeySetIsNamed() throws {
        func found(_ place: String) throws -> [String] { try load(issuer("jwks: \(place)")).issuerFileProblems }
        #expect(try found("https://i/keys").isEmpty)
        let missing = try found("/nonexistent/keys")
        #expect(missing.count == 1 && missing[0].hasPrefix("auth.issuers[0].jwks: /nonexistent/keys cannot be read"))
        #expect(try found("/etc/passwd").first?.contains("/etc/passwd: there is no key set") == true)
    }

    @Test func theSecretOfHS256ComesFromAFile() {
        #expect(problems(issuer("algorithms: [HS256]", "jwks: https://i/keys")).contains { $0.contains("from a file") })
        #expect(problems(issuer("algorithms: [HS256]")).isEmpty)
    }
}
