import Crypto
import CryptoExtras
import Foundation
import StalecastWire

/// The signed statement that a service account exchanges for an access token (RFC 7523, RS256).
struct TokenAssertion {
    /// How long it may be used, in seconds; Google takes at most an hour.
    static let lifetime: Int64 = 3600

    let account: ServiceAccount
    let scope: String
    /// Where it is sent, and for whom alone it is good: another server that gets hold of it cannot exchange it.
    let audience: OutboundURL

    /// - Parameter time: seconds since 1970 as the token endpoint's clock shows them.
    func signed(at time: Int64) throws -> String {
        var header: JSONObject = ["alg": "RS256", "typ": "JWT"]
        if let keyID = account.keyID { header["kid"] = .string(keyID) }
        let claims: JSONObject = [
            "iss": .string(account.email), "scope": .string(scope),
            "aud": .string(audience.text), "iat": .int(time), "exp": .int(time + Self.lifetime),
        ]
        let text = [header, claims].map { Self.base64url(Data(JSONValue.object($0).encoded())) }.joined(separator: ".")
        let signature = try account.key.signature(
            for: SHA256.hash(data: Data(text.utf8)), padding: .insecurePKCS1v1_5)
        return text + "." + Self.base64url(signature.rawRepresentation)
    }

    private static func base64url(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
