import StalecastAccess

/// Failure of a sign-in with an issuer: a sentence for the person that says what to do, and the cause for the log.
struct SignInFailure: Error {
    /// Kind of failure; raw values are in the metric and the audit log.
    enum Kind: String, Sendable {
        /// The issuer did not answer, or not as an OpenID provider does.
        case unavailable
        /// The issuer refused the person, or this daemon.
        case refused
        /// Its answer belongs to no sign-in that this browser has begun.
        case foreign
        /// The ID token is not good.
        case badToken = "bad_token"
        /// The person is known, and no rule grants anything.
        case notGranted = "not_granted"
        /// One address or one person began too many sign-ins.
        case overRate = "over_rate"
    }

    let kind: Kind
    /// Person whom the issuer vouched for; nil before it did.
    let principal: Principal?
    let sentence: String
    /// Cause for the log, without secrets; may repeat words of the issuer.
    let cause: String

    private init(_ kind: Kind, _ sentence: String, _ cause: String, of principal: Principal? = nil) {
        (self.kind, self.principal, self.sentence, self.cause) = (kind, principal, sentence, cause)
    }

    static func unavailable(_ issuer: String, _ cause: String) -> SignInFailure {
        SignInFailure(
            .unavailable,
            "\(issuer) cannot sign people in now: it does not answer as it should. Try again in a minute, or sign in with "
                + "a key. The daemon's log has the reason.", cause)
    }

    static let foreign = SignInFailure(
        .foreign,
        "This sign-in was not begun in this browser, or more than ten minutes ago, or it is over. Sign in again.",
        "no such sign-in")

    /// - Parameter principal: nil when an address begins too many.
    static func overRate(_ principal: Principal? = nil) -> SignInFailure {
        SignInFailure(
            .overRate, "Too many sign-ins from here; wait a minute.", "too many within a minute", of: principal)
    }

    /// - Parameters:
    ///   - error: RFC 6749's word.
    ///   - words: the issuer's own, if it has any.
    static func refused(_ issuer: String, _ error: String, _ words: String?) -> SignInFailure {
        let said = plain(error) + (words.map { ": " + plain($0) } ?? "")
        let advice =
            switch error {
            case "access_denied": "Sign in again to consent, or ask the people who run it to give you the application."
            case "invalid_client", "unauthorized_client":
                "It does not take this daemon for its client: the operator should compare clientID and "
                    + "clientSecretFile with what is registered there."
            case "invalid_scope": "The operator should ask for fewer scopes in auth.issuers."
            default: "Sign in again. When it stays so, the operator should look into its log."
            }
        return SignInFailure(.refused, "\(issuer) refused: \(said). \(advice)", said)
    }

    /// - Parameter size: the token's, in bytes.
    static func badToken(_ issuer: String, _ denial: Denial, size: Int) -> SignInFailure {
        let sentence =
            switch denial {
            case .expired, .notYet, .tooLong:
                "\(issuer)'s clock and this daemon's differ, or its token is good for longer than maxLifetime. The "
                    + "operator should compare the clocks."
            case .notReady, .unknownKey:
                "The keys of \(issuer) are not here yet. Try again in a minute; when it stays so, the operator should "
                    + "check jwks in auth.issuers."
            case .wrongAlgorithm, .badSignature:
                "\(issuer) signed its answer with a key or an algorithm that auth.issuers does not name. The operator "
                    + "should check jwks and algorithms."
            case .malformed:
                "The ID token of \(issuer) cannot be used here: it has \(size) bytes, and up to \(SignedToken.maxBytes) "
                    + "are read; else its header has a typ other than JWT, or crit or a key. The operator should "
                    + "have \(issuer) put fewer claims, such as groups, into it."
            default:
                "The answer of \(issuer) is not for this sign-in (\(denial.rawValue)). The operator should check "
                    + "issuer and clientID in auth.issuers."
            }
        return SignInFailure(.badToken, sentence, "\(denial.rawValue), \(size) bytes")
    }

    static func notGranted(_ issuer: String, _ principal: Principal) -> SignInFailure {
        let known = principal.email ?? (principal.name.isEmpty ? principal.id : principal.name)
        return SignInFailure(
            .notGranted,
            "\(issuer) says that you are \(known), and nothing here is granted to you. Ask the operator for a rule of "
                + "auth.issuers that fits your token; its sub is \(principal.id).", "no grant for \(principal.id)",
            of: principal)
    }

    /// Text of another server for people and logs: visible characters, and few.
    private static func plain(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.filter { (0x20...0x7E).contains($0.value) }.prefix(200)))
    }
}
