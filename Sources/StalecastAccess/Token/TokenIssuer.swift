package import StalecastWire

/// Issuer whose tokens are taken here, and what they are good for. The operator sets everything: nothing in a token
/// decides how the token is verified.
package struct TokenIssuer: Sendable, Hashable {
    /// Name in logs and in `updateUser`; unique.
    package var name: String
    /// `iss`, byte for byte.
    package var issuer: String
    /// One of these must be in `aud`; at least one.
    package var audiences: [String]
    /// HS256 alone, or any of the others.
    package var algorithms: Set<TokenAlgorithm>
    /// Accepted values of the header's `typ`, in any case; the empty text is a token without one.
    package var types: [String] = ["JWT", "at+jwt", ""]
    package var keys: KeyPlace
    /// Time that `nbf` and `iat` may lie ahead; `exp` has none.
    package var leeway: Duration = .seconds(30)
    /// Longest time from `iat`, or from now, to `exp`.
    package var maxLifetime: Duration = .seconds(86_400)
    /// Whether tokens say what they may do: in `authorization_details` and in the claim `stalecast`.
    package var grantsInTokens = false
    package var rules: [Rule] = []
    /// nil: people do not sign in to the console with it.
    package var signIn: SignIn?

    package struct KeyPlace: Sendable, Hashable {
        /// A file, or an https URL.
        package var location: String
        /// PEM file of the authorities of the URL's host; nil for the system's.
        package var caFile: String?
        /// File of a bearer token that the URL asks for; read again each time.
        package var tokenFile: String?

        package init(_ location: String, caFile: String? = nil, tokenFile: String? = nil) {
            (self.location, self.caFile, self.tokenFile) = (location, caFile, tokenFile)
        }

        package var isURL: Bool { location.hasPrefix("https://") }
    }

    /// This daemon as a client of the issuer (OpenID Connect), for people who sign in to the console.
    package struct SignIn: Sendable, Hashable {
        /// The `aud` of its ID tokens.
        package var clientID: String
        /// File of the client's secret; nil for a public client.
        package var secretFile: String?
        /// Requested at sign-in beside `openid`.
        package var scopes: [String] = ["profile", "email"]

        package init(clientID: String) { self.clientID = clientID }
    }

    /// Rules for the ID tokens of this issuer; nil where people do not sign in with it.
    var forSignIn: TokenIssuer? {
        guard let signIn else { return nil }
        var issuer = self
        // An access token of the same issuer is no ID token, and the other way round.
        (issuer.audiences, issuer.types) = ([signIn.clientID], ["JWT", ""])
        return issuer
    }

    /// A grant for the tokens whose claims are such.
    package struct Rule: Sendable, Hashable {
        /// Claims and patterns of their values; all must fit. Of a claim that is a list one element must.
        package var when: [String: Glob]
        package var grant: Grant

        package init(when: [String: Glob], grant: Grant) {
            self.when = when
            self.grant = grant
        }
    }

    package init(
        name: String, issuer: String, audiences: [String], algorithms: Set<TokenAlgorithm>, keys: KeyPlace
    ) {
        (self.name, self.issuer, self.audiences) = (name, issuer, audiences)
        (self.algorithms, self.keys) = (algorithms, keys)
    }
}

/// The signatures that are understood (RFC 7518, RFC 8037).
package enum TokenAlgorithm: String, Sendable, CaseIterable {
    case es256 = "ES256"
    case eddsa = "EdDSA"
    case rs256 = "RS256"
    case hs256 = "HS256"

    /// Reads the name in a header or a key; RFC 9864 calls EdDSA by its curve.
    init?(jose name: String) {
        guard let known = Self(rawValue: name == "Ed25519" ? "EdDSA" : name) else { return nil }
        self = known
    }
}
