import StalecastAccess
import StalecastOutbound
import StalecastWire
import Yams

extension ConfigurationOption {
    static let issuers = ConfigurationOption(
        entries: "auth.issuers", \.auth.issuers, issuerFields, .live,
        "Whose tokens (JWT) are taken at both listeners. Nothing of a token says how it is to be verified.",
        spell: { "{name: \($0.name), issuer: \"\($0.issuer)\"}" }, read: { $1.issuer($0) })

    private static let issuerFields: [EntryField] =
        [
            .required("name", "1 to 32 characters of a-z 0-9 -", "What logs and updateUser call it."),
            .required("issuer", "text", "The claim iss, byte for byte."),
            .required("audiences", "list of texts", "One of them must be in the claim aud, byte for byte."),
            .required(
                "algorithms", "list of ES256, EdDSA, RS256; or HS256 alone",
                "The signatures it uses. HS256 takes its secret from a file."),
            .required(
                "jwks", "file, or https URL",
                "Its key set: read anew each 10 s from a file, each 10 min (or as its server says) from a URL."),
            .optional("caFile", "file", "Authorities of the URL's host."),
            .optional("tokenFile", "file", "A bearer token for the URL, such as a Kubernetes service account's."),
            .optional(
                "types", "list of texts", or: "[JWT, at+jwt, \"\"]",
                "What the header's typ may be; \"\" is a token without one."),
            .optional("leeway", "duration, 0s to 5m", or: "30s", "How far nbf and iat may lie ahead."),
            .optional("maxLifetime", "duration, 1m to 30d", or: "1d", "The longest time from iat, or now, to exp."),
            .optional(
                "grantsInTokens", "true or false", or: "false",
                "Tokens say what they may do: in authorization_details (type \(TokenIssuer.detailType)) and in "
                    + "the claim stalecast, a list of grants."),
            .optional(
                "rules", "list of mappings",
                "Grants by claims: when (a mapping of claims and patterns of their values, all must fit) and"
                    + " the keys of a grant, role, actions, projects, namespaces, topics."),
            .optional(
                "clientID", "text",
                "This daemon's name at the issuer: people can sign in to the console with it (OpenID Connect)."),
            .optional(
                "clientSecretFile", "file", "The client's secret there, in the first line; a public client has none."),
            .optional(
                "scopes", "list of texts", or: "[profile, email]",
                "What a sign-in asks for beside openid, such as groups."),
        ]
}

extension ConfigurationReading {
    /// Reads an issuer. Refused values stay empty or as they are by default: a configuration with problems is not used.
    fileprivate mutating func issuer(_ entry: Entry) -> TokenIssuer {
        let name = value("name", of: entry, parse: issuerName)
        let iss = value("issuer", of: entry, parse: someText)
        let audiences = values("audiences", of: entry, parse: someText)
        let algorithms = values("algorithms", of: entry, parse: OptionKind<TokenAlgorithm>.choice.parse)
        let jwks = value("jwks", of: entry, parse: keyPlace)
        var issuer = TokenIssuer(
            name: name ?? "", issuer: iss ?? "", audiences: audiences ?? [], algorithms: Set(algorithms ?? []),
            keys: .init(jwks ?? ""))
        issuer.keys.caFile = value("caFile", of: entry, parse: checkedPath)
        issuer.keys.tokenFile = value("tokenFile", of: entry, parse: checkedPath)
        issuer.types = values("types", of: entry, parse: { $0 }) ?? issuer.types
        let leeway = OptionKind<Duration>.duration(.zero ... .seconds(300))
        issuer.leeway = value("leeway", of: entry, parse: leeway.parse) ?? issuer.leeway
        let life = OptionKind<Duration>.duration(.seconds(60) ... .seconds(30 * 86_400))
        issuer.maxLifetime = value("maxLifetime", of: entry, parse: life.parse) ?? issuer.maxLifetime
        readGrants(entry, into: &issuer)
        readSignIn(entry, into: &issuer)
        check(issuer, at: entry.path)
        for (field, value) in [("name", name), ("issuer", iss)] {
            if let value { claim(value, field, of: entry, among: field) }
        }
        return issuer
    }

    private mutating func readGrants(_ entry: Entry, into issuer: inout TokenIssuer) {
        let word = value("grantsInTokens", of: entry, or: false, parse: OptionKind<Bool>.flag.parse)
        issuer.grantsInTokens = word ?? false
        if let node = entry.fields["rules"] { issuer.rules = rules(node, at: "\(entry.path).rules") }
        // What was refused may have given them something to do.
        let hasRules = entry.fields["rules"].map { !entriesAreEmpty($0) } ?? false
        guard word == false, !hasRules else { return }
        note("\(entry.path): its tokens could do nothing; give rules, or grantsInTokens: true", at: entry.path)
    }

    private mutating func readSignIn(_ entry: Entry, into issuer: inout TokenIssuer) {
        let path = entry.path
        let client = value("clientID", of: entry, parse: someText)
        let secret = value("clientSecretFile", of: entry, parse: checkedPath)
        let scopes = values("scopes", of: entry, parse: scopeWord)
        guard entry.fields["clientID"] != nil else {
            for word in ["clientSecretFile", "scopes"] where entry.fields[word] != nil {
                note("\(path).\(word) is for sign-ins, which need a clientID", at: "\(path).\(word)")
            }
            return
        }
        // A text that is not a URL is refused like one without https.
        if !issuer.issuer.isEmpty, (try? OutboundURL(issuer.issuer))?.scheme != "https" {
            note("\(path).clientID: a sign-in needs an issuer whose name is an https URL", at: "\(path).clientID")
        }
        issuer.signIn = client.map { TokenIssuer.SignIn(clientID: $0) }
        issuer.signIn?.secretFile = secret
        if let scopes { issuer.signIn?.scopes = scopes.filter { $0 != "openid" } }
    }

    private mutating func rules(_ node: Node, at path: String) -> [TokenIssuer.Rule] {
        let fields: [EntryField] = [.required("when", "mapping", "Claims.")] + ConfigurationOption.grantFields
        return entries(of: node, at: path, fields).compactMap { entry in
            let when = entry.fields["when"].flatMap { claims($0, at: "\(entry.path).when") }
            guard let grant = grant(entry), let when else { return nil }
            return TokenIssuer.Rule(when: when, grant: grant)
        }
    }

    /// nil, with a note, when there are none or they are no texts.
    private mutating func claims(_ node: Node, at path: String) -> [String: Glob]? {
        place(path, at: origin(of: node))
        guard let mapping = node.mapping, !mapping.isEmpty else {
            note("\(path) must be a mapping of claims and values, at least one", at: path)
            return nil
        }
        var when: [String: Glob] = [:]
        for (key, value) in mapping {
            guard let name = keyName(key), let text = text(of: value, at: "\(path).\(name)", expected: "one value")
            else { continue }
            if text.isEmpty || text.allSatisfy({ $0 == "*" }) {
                note("\(path).\(name): \"\(text)\" is every value; write what it must be", at: path)
            }
            when[name] = Glob(text)
        }
        return when
    }

    private mutating func check(_ issuer: TokenIssuer, at path: String) {
        if issuer.algorithms.contains(.hs256), issuer.algorithms.count > 1 {
            note("\(path).algorithms: HS256 stands alone: what verifies it can sign", at: "\(path).algorithms")
        }
        if issuer.algorithms.contains(.hs256), issuer.keys.isURL {
            note("\(path).jwks: the secret of HS256 comes from a file", at: "\(path).jwks")
        }
        let isFile = !issuer.keys.location.isEmpty && !issuer.keys.isURL
        if isFile, issuer.keys.caFile != nil && issuer.signIn == nil || issuer.keys.tokenFile != nil {
            note("\(path): caFile and tokenFile are for a URL", at: path)
        }
    }
}

extension Configuration {
    /// Problems of the key sets and client secrets that issuers have in files, a sentence for each. A start only warns of
    /// it: a file may come later. Blocks on the files.
    package var issuerFileProblems: [String] {
        auth.issuers.enumerated().flatMap { index, issuer in
            let keys = issuer.keys.isURL ? nil : issuer.keys.location
            return [
                Self.problem("auth.issuers[\(index)].jwks", keys) { path in
                    _ = try KeySet(try LocalFile(path: path, maxBytes: KeySet.maxBytes).bytes, for: issuer.algorithms)
                },
                Self.problem("auth.issuers[\(index)].clientSecretFile", issuer.signIn?.secretFile) { path in
                    _ = try ClientSecret.read(path)
                },
            ].compactMap(\.self)
        }
    }

    private static func problem(_ key: String, _ path: String?, _ read: (String) throws -> Void) -> String? {
        guard let path else { return nil }
        do {
            try read(path)
            return nil
        } catch {
            let sentence = "\(error)"
            return "\(key): \(sentence.contains(path) ? sentence : "\(path): \(sentence)")"
        }
    }
}

private func issuerName(_ text: String) throws(InvalidValue) -> String {
    guard text.isWord(1...32, and: "-"), text == text.lowercased() else {
        throw InvalidValue("\"\(text.prefix(40))\" must be 1 to 32 characters of a-z 0-9 -")
    }
    return text
}

private func someText(_ text: String) throws(InvalidValue) -> String {
    guard (1...1024).contains(text.utf8.count) else { throw InvalidValue("must have 1 to 1024 bytes") }
    return text
}

/// RFC 6749 §3.3.
private func scopeWord(_ text: String) throws(InvalidValue) -> String {
    guard (1...100).contains(text.utf8.count),
        text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C })
    else { throw InvalidValue("\"\(text.prefix(40))\" must be one word of visible ASCII") }
    return text
}

private func keyPlace(_ text: String) throws(InvalidValue) -> String {
    guard text.contains("://") else { return try checkedPath(text) }
    let url: OutboundURL
    do { url = try OutboundURL(text) } catch { throw InvalidValue("\"\(text.prefix(200))\" \(error)") }
    guard url.scheme == "https", text.hasPrefix("https://") else {
        throw InvalidValue("must be a file, or begin with https://")
    }
    return text
}
