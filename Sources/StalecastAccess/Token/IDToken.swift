package import StalecastWire

/// ID token that an issuer gave for one sign-in to the console (OpenID Connect Core 1.0 §2). Nothing of it is believed
/// before ``Authorizer/admit(_:at:)``.
package struct IDToken: Sendable, Hashable {
    /// Least time that a sign-in lasts: some issuers' tokens end after five minutes, and people would be sent to the
    /// issuer all the time.
    package static let leastLife: Duration = .seconds(3600)

    let text: String
    /// `iss` of the issuer that was asked. A token of any other is refused.
    let issuer: String
    let nonce: String
    /// Time of the sign-in. The token must be good then; later only the end of the sign-in counts.
    let signedInAt: Timestamp

    package init(_ text: String, of issuer: TokenIssuer, nonce: String, at now: Timestamp) {
        self.text = text
        self.issuer = issuer.issuer
        self.nonce = nonce
        signedInAt = now
    }

    /// Differs from that of the text alone: where a sign-in is known, the token is still no bearer token.
    var digest: SecretDigest { SecretDigest(of: "sign-in\u{0}\(nonce)\u{0}\(text)") }

    func end(_ expiresAt: Timestamp) -> Timestamp { max(expiresAt, signedInAt.advanced(by: Self.leastLife)) }

    /// OpenID Connect Core 1.0 §3.1.3.7: `iss`, `nonce` and, where it is there, `azp`.
    func check(_ claims: JSONObject, clientID: String) throws(Denial) {
        func isText(_ name: String, _ text: String) -> Bool {
            claims[name]?.string.map { $0.utf8.elementsEqual(text.utf8) } ?? false
        }
        guard isText("iss", issuer) else { throw .unknownIssuer }
        guard isText("nonce", nonce) else { throw .badClaims }
        let isOfSeveral = (claims["aud"]?.array?.count ?? 1) > 1
        guard claims["azp"] == nil && !isOfSeveral || isText("azp", clientID) else { throw .wrongAudience }
    }
}
