/// The credentials of one request, wherever it carries them.
package struct Credentials: Sendable, Hashable {
    /// The `Authorization` header; nil when there is none.
    package var authorization: String?
    /// `X-API-Key`.
    package var apiKey: String?
    /// `X-Goog-Api-Key`, where Firebase's clients have a key of their own.
    package var googleKey: String?
    /// `key` in the query, decoded.
    package var queryKey: String?
    /// `ticket` in the query.
    package var ticket: String?
    /// Value of ``SessionCookie``, where it counts; browsers send it along, so whatever else the request has goes
    /// first.
    package var cookie: String?
    /// Certificate of the connection; counts where the request has no credential of its own.
    package var certificate: ClientCertificate?
    /// Question that the user's backend was asked; then nothing else counts.
    package var question: SecretDigest?
    /// One of these is there twice.
    package var isRepeated = false
    /// Result of checking the token or ticket in it, once that was done.
    package var verification: Verification?

    /// Result of checking a token or ticket.
    package enum Verification: Sendable, Hashable {
        case good
        case refused(Denial)
        /// The ticket was good, and is not any more.
        case redeemed(Ticket)
        /// Sign-in to the console with an issuer; it stands in the place of a credential.
        case signedIn(IDToken)
    }

    package init() {}

    /// Nothing in the request itself.
    package var isEmpty: Bool {
        authorization == nil && apiKey == nil && googleKey == nil && queryKey == nil && ticket == nil && !isRepeated
    }

    /// Text in Google's carriers; the header wins.
    package var googleText: String? { googleKey ?? queryKey }

    /// A key of `edge.apiKeys`, in whichever carrier of keys.
    package var plainKey: String? { googleText ?? apiKey }

    /// A key that may stand in a URL: a publishable one, or one that `knows` says is no secret.
    package func publicKey(_ knows: (String) -> Bool) -> String? {
        // What is no key is not publishable.
        texts.first { (try? APIKey($0))?.kind == .publishable || knows($0) }
    }

    /// Every text that may be a key.
    var texts: [String] {
        [authorization?.split(separator: " ").last.map(String.init), apiKey, googleKey, queryKey].compactMap(\.self)
    }

    /// The one credential that is presented; nil when there is none.
    ///
    /// - Parameter knows: whether a text in Google's carriers is one of ours. Firebase's clients always send some key;
    ///   beside a credential a foreign one means nothing.
    func only(_ knows: (String) -> Bool) throws(Denial) -> Credential? {
        if isRepeated { throw .ambiguous }
        var found: Credential?
        func take(_ text: String, isInURL: Bool = false) throws(Denial) {
            if let found, found.text != text { throw .ambiguous }
            found = Credential(text: text, isInURL: isInURL || found?.isInURL ?? false)
        }
        func isOurs(_ text: String) -> Bool { text.hasPrefix(APIKey.prefix) || knows(text) }
        if let authorization { try take(try Self.bearer(authorization)) }
        if let apiKey { try take(apiKey) }
        if let googleKey, isOurs(googleKey) { try take(googleKey) }
        if let queryKey, isOurs(queryKey) { try take(queryKey, isInURL: true) }
        if let found { return found }
        if let googleText { return Credential(text: googleText, isInURL: googleKey == nil) }
        return cookie.map { Credential(text: $0, isInURL: false) }
    }

    /// RFC 6750: the scheme in any case, blanks, then visible characters to the end.
    private static func bearer(_ header: String) throws(Denial) -> String {
        let scheme = header.utf8.prefix { $0 != 0x20 }
        let token = header.utf8.dropFirst(scheme.count).drop { $0 == 0x20 }
        guard String(decoding: scheme, as: UTF8.self).lowercased() == "bearer", !token.isEmpty,
            token.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .malformed }
        return String(decoding: token, as: UTF8.self)
    }
}

/// A text that is to identify a client.
struct Credential: Sendable, Hashable {
    let text: String
    let isInURL: Bool
}
