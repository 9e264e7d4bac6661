import StalecastAccess
import StalecastOutbound
import StalecastWire
import Yams

extension ConfigurationOption {
    static let auth = [
        ConfigurationOption(
            "auth.mode", \.auth.mode, .choice, .live,
            "Whether Edge asks for credentials: off asks for none but edge.apiKeys; observe serves as off, and counts and logs "
                + "who would be refused; enforce refuses. Control always asks."),
        ConfigurationOption(
            entries: "auth.anonymous", \.auth.anonymous, grantFields, .live,
            "What callers of Edge may do who present no credential, where auth.mode is enforce.",
            spell: { $0.json.text() }, read: { $1.grant($0) }),
        ConfigurationOption(
            entries: "auth.keys", \.auth.keys, keyFields, .live,
            "API keys known by their hash; `stalecast keys generate` prints an entry. More are made with `stalecast keys "
                + "create`.",
            spell: { "{name: \($0.name), id: \($0.configuredID)}" }, read: { $1.key($0) }),
        issuers,
        ConfigurationOption(
            entries: "auth.certificates", \.auth.certificates,
            [
                .required(
                    "san", "spiffe://… or DNS name, with * and ?",
                    "Certificates with such a name (subjectAltName); * is any text, slashes and dots too.")
            ] + grantFields, .live,
            "What clients may do who show a certificate of tls.clientAuthorities, and no other credential.",
            spell: { $0.grant.json.text() }, read: { $1.certificateRule($0) }),
        ConfigurationOption(
            list: "auth.allowedAddresses", \.auth.allowedAddresses, .addressRange, .restart,
            "Addresses of key sets and of the hook that are not public, such as a cluster's API server."),
        ConfigurationOption(
            "auth.hook.url", \.auth.hook.url, .optionalURL, .restart,
            "Answers 200 with {\"subject\", \"grants\", \"expiresAt\", \"cacheFor\"}, or 401; anything else refuses for now."
        ),
        ConfigurationOption(
            list: "auth.hook.headers", \.auth.hook.headers, .headerName, .restart,
            "Headers that are passed on, such as cookie; requests with none of them, or with a key or token, are not asked "
                + "about."),
        ConfigurationOption(
            "auth.hook.caFile", \.auth.hook.caFile, .optionalFile, .restart,
            "PEM file of the authorities of the URL's host."),
    ]

    private static let keyFields: [EntryField] =
        [
            .required("name", "up to 128 bytes", "What it is for."),
            .required("id", "stc_s_ or stc_p_ and 10 characters", "The beginning of the key, which is no secret."),
            .required(
                "sha256", "list of 1 or 2 times 64 hexadecimal digits",
                "The hash of the whole key, or of two while one takes the place of the other."),
        ] + grantFields + [
            .optional("notBefore, expires", "time such as 2027-01-31T00:00:00Z", "When it is good.")
        ]

    static let grantFields: [EntryField] = [
        .optional(
            "role", "viewer, publisher or operator", "A bundle of actions at Control: read; read and publish; all."),
        .optional(
            "actions", "list of watch, fetch, read, publish, manage, operate",
            "Actions beside those of the role; watch and fetch are Edge's."),
        .optional(
            "projects, namespaces, topics", "lists of names or patterns with * and ?", or: "any",
            "What the actions may be done to."),
    ]
}

extension AccessKey {
    fileprivate var configuredID: String { "\(StalecastAccess.APIKey.prefix)\(kind.rawValue)_\(id)" }
}

extension ConfigurationReading {
    fileprivate mutating func certificateRule(_ entry: Entry) -> ClientCertificate.Rule? {
        guard let name = value("san", of: entry, parse: certificateName), let grant = grant(entry) else { return nil }
        return ClientCertificate.Rule(name: Glob(name), grant: grant)
    }

    fileprivate mutating func key(_ entry: Entry) -> AccessKey? {
        let name = value("name", of: entry) { $0 }
        let id = value("id", of: entry, parse: keyID)
        let digests = values("sha256", of: entry, parse: digest)
        let grant = grant(entry)
        let notBefore = value("notBefore", of: entry, parse: time)
        let expires = value("expires", of: entry, parse: time)
        guard let name, let id, let digests, let grant else { return nil }
        if digests.count > AccessKey.maxSecrets || name.utf8.count > 128 {
            note("\(entry.path): at most \(AccessKey.maxSecrets) hashes and 128 bytes of name", at: entry.path)
        }
        let key = AccessKey(
            id: id.id, kind: id.kind, name: name, grants: [grant], secrets: digests.map { .init($0) },
            notBefore: notBefore, expiresAt: expires)
        claim(key.configuredID, "id", of: entry)
        return key
    }

    /// The fields of ``ConfigurationOption/grantFields``; nil, with a note, when they are no grant.
    mutating func grant(_ entry: Entry) -> Grant? {
        var lists: [String: [String]] = [:]
        for name in ["actions", "projects", "namespaces", "topics"] {
            guard entry.fields[name] != nil else { continue }
            guard let texts = values(name, of: entry, parse: { $0 }) else { return nil }
            lists[name] = texts
        }
        let role = value("role", of: entry) { $0 }
        do {
            return try Grant(
                role: role, actions: lists["actions"] ?? [], projects: lists["projects"],
                namespaces: lists["namespaces"], topics: lists["topics"], at: entry.path)
        } catch {
            note("\(error.field) \(error)", at: error.field)
            return nil
        }
    }
}

extension OptionKind<String?> {
    /// One that ``OutboundURL`` takes; the empty text is none.
    static let optionalURL = OptionKind(form: "https or http URL") { text throws(InvalidValue) in
        do { _ = try OutboundURL(text) } catch { throw InvalidValue("\"\(text.prefix(200))\" \(error)") }
        return text
    }
}

extension OptionKind<String> {
    fileprivate static let headerName = OptionKind(form: "header name") { text throws(InvalidValue) in
        let name = text.lowercased()
        guard name.isWord(1...64, and: "-") else {
            throw InvalidValue("\"\(text.prefix(80))\" is no header name; use letters, digits and -")
        }
        let others = ["host", "connection", "content-length", "transfer-encoding", "expect", "te", "upgrade", "accept"]
        if others.contains(name) { throw InvalidValue("\(name) is about the message, not about who sends it") }
        return name
    }
}

private func certificateName(_ text: String) throws(InvalidValue) -> String {
    let (scheme, isSPIFFE) = (ClientCertificate.scheme, text.hasPrefix(ClientCertificate.scheme))
    let name = isSPIFFE ? text : text.lowercased()
    let own = isSPIFFE ? name.dropFirst(scheme.count) : name[...]
    let others = isSPIFFE ? "-._:/*?" : "-._*?"
    guard own.utf8.allSatisfy({ $0.isASCIIAlphanumeric || others.utf8.contains($0) }), text.utf8.count <= 2048 else {
        throw InvalidValue(
            "\"\(text.prefix(200))\" is no name such as spiffe://shop.example/ns/web/* or web.shop.example")
    }
    guard let first = own.first, first != "*" || own.dropFirst().contains(where: { $0 != "*" && $0 != "?" }) else {
        throw InvalidValue("\"\(text)\" is every name; write what it must be")
    }
    // A wildcard in the trust domain would accept certificates of any organisation.
    if isSPIFFE, own.prefix(while: { $0 != "/" }).contains("*") {
        throw InvalidValue("\"\(text)\": write the trust domain out, spiffe://shop.example/…")
    }
    return name
}

private func keyID(_ text: String) throws(InvalidValue) -> (id: String, kind: StalecastAccess.APIKey.Kind) {
    let parts = text.split(separator: "_", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, parts[0] == "stc", let kind = StalecastAccess.APIKey.Kind(rawValue: parts[1]),
        StalecastAccess.APIKey.isID(parts[2])
    else { throw InvalidValue("\"\(text.prefix(20))\" is no id such as stc_s_4fT0aZ81Qx; write no more of the key") }
    return (parts[2], kind)
}

private func digest(_ text: String) throws(InvalidValue) -> SecretDigest {
    guard let digest = SecretDigest(hexadecimal: text) else {
        throw InvalidValue("a SHA-256 has 64 hexadecimal digits")
    }
    return digest
}

private func time(_ text: String) throws(InvalidValue) -> Timestamp {
    guard let time = Timestamp(text) else {
        throw InvalidValue("\"\(text)\" is no time such as 2027-01-31T00:00:00Z")
    }
    return time
}
