import Foundation
import StalecastAccess
import StalecastHTTP
import StalecastOutbound
import StalecastWire

/// Endpoints of an issuer, from its own document (OpenID Connect Discovery 1.0).
struct OpenIDProvider: Sendable {
    static let maxBytes = 64 << 10

    private let authorization: OutboundURL
    let token: OutboundURL
    private let endSession: OutboundURL?
    /// Reason why a sign-out does not reach the issuer though its document says where; a sentence.
    let problem: String?
    /// Whether the issuer names itself in each answer (RFC 9207).
    let namesItself: Bool
    /// Whether the issuer takes the client's secret as a basic credential.
    private let takesBasic: Bool
    /// Whether the issuer takes the client's secret in the body.
    private let takesBody: Bool

    /// Reason why a document is of no use; a sentence.
    struct Unusable: Error, CustomStringConvertible { let description: String }

    /// Address of an issuer's document.
    static func place(of issuer: TokenIssuer) throws -> OutboundURL {
        let base = issuer.issuer.hasSuffix("/") ? String(issuer.issuer.dropLast()) : issuer.issuer
        return try secure("issuer", base + "/.well-known/openid-configuration")
    }

    init(_ body: [UInt8], of issuer: TokenIssuer) throws {
        guard let document = JSONValue.ifValid(body, maxDepth: 16), document.object != nil else {
            throw Unusable(description: "its document is not JSON")
        }
        // Another one's document would send people, and the code, to another one's endpoints.
        guard let named = document["issuer"]?.string, named.utf8.elementsEqual(issuer.issuer.utf8) else {
            throw Unusable(description: "its document names another issuer; auth.issuers needs it byte for byte")
        }
        authorization = try Self.secure("authorization_endpoint", document["authorization_endpoint"]?.string)
        token = try Self.secure("token_endpoint", document["token_endpoint"]?.string)
        let end = document["end_session_endpoint"]?.string.map { end in
            Result { try Self.secure("end_session_endpoint", end) }
        }
        // A sign-in does not need it.
        endSession = try? end?.get()
        if case .failure(let error) = end { problem = "\(error)" } else { problem = nil }
        namesItself = document["authorization_response_iss_parameter_supported"]?.bool ?? false
        let methods = document["token_endpoint_auth_methods_supported"]?.array?.compactMap(\.string)
        takesBasic = methods?.contains("client_secret_basic") ?? true
        takesBody = methods?.contains("client_secret_post") ?? false
    }

    private static func secure(_ name: String, _ text: String?) throws -> OutboundURL {
        guard let text else { throw Unusable(description: "its document has no \(name)") }
        let url: OutboundURL
        do { url = try OutboundURL(text) } catch { throw Unusable(description: "\(name) \(error)") }
        guard url.scheme == "https" else { throw Unusable(description: "\(name) is not https") }
        return url
    }

    // MARK: Requests

    /// Address at the issuer that the browser goes to.
    func authorizationAddress(_ flow: SignInFlows.Flow, _ client: TokenIssuer.SignIn) -> String {
        authorization.adding([
            ("response_type", "code"), ("client_id", client.clientID), ("redirect_uri", flow.redirect),
            ("scope", (["openid"] + client.scopes).joined(separator: " ")), ("state", flow.state),
            ("nonce", flow.nonce), ("code_challenge", flow.challenge), ("code_challenge_method", "S256"),
        ])
    }

    /// Request that exchanges a code.
    ///
    /// - Parameter secret: the client's; nil for a public one.
    func exchange(
        _ code: String, _ flow: SignInFlows.Flow, _ client: TokenIssuer.SignIn, secret: String?
    ) throws -> (headers: [OutboundHeader], body: [UInt8]) {
        var headers = [
            OutboundHeader(trusted: "content-type", "application/x-www-form-urlencoded"),
            OutboundHeader(trusted: "accept", "application/json"),
        ]
        var fields = [
            ("grant_type", "authorization_code"), ("code", code), ("redirect_uri", flow.redirect),
            ("code_verifier", flow.verifier),
        ]
        // RFC 6749 §2.3.1 encodes both before they are joined; some providers do not decode them.
        let pair = [client.clientID, secret ?? ""]
        let encoded = pair.map(PercentEncoding.encode)
        if secret != nil, takesBasic, encoded == pair || !takesBody {
            let credential = Data(encoded.joined(separator: ":").utf8).base64EncodedString()
            headers.append(try OutboundHeader("authorization", "Basic \(credential)"))
        } else {
            fields.append(("client_id", client.clientID))
            if let secret { fields.append(("client_secret", secret)) }
        }
        return (headers, Array(formEncoded(fields).utf8))
    }

    /// Address at the issuer that ends the person's session there; nil where it has none (OpenID Connect RP-Initiated
    /// Logout 1.0). It names no page to come back to, which would have to be registered. The page that signs out sees it,
    /// so an ID token that is a bearer token here is left out; the issuer may then ask the person once more.
    func farewell(_ idToken: String, of issuer: TokenIssuer, _ client: TokenIssuer.SignIn) -> String? {
        let isBearer = issuer.audiences.contains { $0.utf8.elementsEqual(client.clientID.utf8) }
        return endSession?.adding((isBearer ? [] : [("id_token_hint", idToken)]) + [("client_id", client.clientID)])
    }
}

extension OutboundURL {
    fileprivate func adding(_ fields: [(String, String)]) -> String {
        text + (text.utf8.contains(UInt8(ascii: "?")) ? "&" : "?") + formEncoded(fields)
    }
}

private func formEncoded(_ fields: [(String, String)]) -> String {
    fields.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
}
