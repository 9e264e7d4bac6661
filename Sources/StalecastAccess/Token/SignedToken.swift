package import StalecastWire

/// A JSON web token in compact form (RFC 7519, RFC 7515), taken apart. Nothing of it is believed before
/// ``TokenIssuer/verify(_:with:at:)``.
package struct SignedToken: Sendable {
    let header: JSONObject
    let claims: JSONObject
    /// Header and claims as they stand, which is what the signature is of.
    let signed: [UInt8]
    let signature: [UInt8]

    package static let maxBytes = 8192
    /// Real tokens have two levels, with objects in lists four.
    private static let maxDepth = 16

    /// Whether a credential is to be read as one: three parts. No key of ours has a dot.
    static func resembles(_ text: String) -> Bool {
        // In one pass over memory, many bytes at a time: it is asked of every credential, several times.
        var text = text
        return text.withUTF8 { bytes in bytes.reduce(into: 0) { $0 &+= $1 == UInt8(ascii: ".") ? 1 : 0 } } == 2
    }

    package init(_ text: String) throws(Denial) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Self.maxBytes else { throw .malformed }
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = Base64URL.decode(parts[2]) else { throw .malformed }
        header = try Self.object(parts[0])
        claims = try Self.object(parts[1])
        signed = Array(bytes[..<(parts[2].startIndex - 1)])
        self.signature = signature
    }

    private static func object(_ part: ArraySlice<UInt8>) throws(Denial) -> JSONObject {
        // Members that are there twice, depth and UTF-8 are the parser's.
        guard let bytes = Base64URL.decode(part), bytes.first == UInt8(ascii: "{"),
            let object = JSONValue.ifValid(bytes, maxDepth: maxDepth)?.object
        else { throw .malformed }
        return object
    }
}

/// Holder of a token.
package struct TokenIdentity: Sendable, Hashable {
    package let subject: String
    package let name: String
    /// Only when the issuer says that it is verified.
    package let email: String?
    package let expiresAt: Timestamp
    package let grants: [Grant]
}

extension TokenIssuer {
    /// The whole of the check, in this order: header, key, signature, claims.
    ///
    /// - Parameter keys: of this issuer.
    package func verify(
        _ token: SignedToken, with keys: KeySet, at now: Timestamp
    ) throws(Denial) -> (identity: TokenIdentity, key: TokenKey) {
        let (algorithm, id) = try check(header: token.header)
        guard let key = keys.key(id, algorithm) else { throw .unknownKey }
        guard key.verifies(token.signature, of: token.signed) else { throw .badSignature }
        return (try identity(token.claims, at: now), key)
    }

    /// Keys that come along with a token are a forger's; `crit` names what we do not know.
    private func check(header: JSONObject) throws(Denial) -> (TokenAlgorithm, String?) {
        guard let algorithm = header["alg"]?.string.flatMap(TokenAlgorithm.init(jose:)),
            algorithms.contains(algorithm)
        else { throw .wrongAlgorithm }
        guard !["crit", "jwk", "jku", "x5u", "x5c"].contains(where: { header[$0] != nil }) else { throw .malformed }
        // Media types are compared in any case (RFC 7515 §4.1.9).
        guard let type = header["typ"] ?? .some(""), let text = type.string,
            types.contains(where: { $0.utf8.elementsEqual(text.utf8) || $0.lowercased() == text.lowercased() })
        else { throw .malformed }
        guard let kid = header["kid"] else { return (algorithm, nil) }
        guard let id = kid.string else { throw .malformed }
        return (algorithm, id)
    }

    private func identity(_ claims: JSONObject, at now: Timestamp) throws(Denial) -> TokenIdentity {
        guard let said = claims["iss"]?.string, said.utf8.elementsEqual(issuer.utf8) else { throw .unknownIssuer }
        guard isAudience(claims["aud"]) else { throw .wrongAudience }
        let expiresAt = try end(claims, at: now)
        guard let subject = claims["sub"]?.string, Self.isPlain(subject, 1...255) else { throw .badClaims }
        let isVerified = claims["email_verified"] == .bool(true)
        let email = claims["email"]?.string.flatMap { isVerified && Self.isPlain($0, 3...255) ? $0 : nil }
        let name = claims["name"]?.string.flatMap { Self.isPlain($0, 1...255) ? $0 : nil }
        return TokenIdentity(
            subject: subject, name: name ?? "", email: email, expiresAt: expiresAt, grants: try grants(claims))
    }

    private func isAudience(_ claim: JSONValue?) -> Bool {
        let said: [JSONValue]
        switch claim {
        case .string(let text)?: said = [.string(text)]
        case .array(let list)?: said = list
        default: return false
        }
        guard said.allSatisfy({ $0.string != nil }) else { return false }
        return said.compactMap(\.string).contains { text in
            audiences.contains { $0.utf8.elementsEqual(text.utf8) }
        }
    }

    /// Time in whole seconds, as a number; anything else is refused.
    private static func seconds(_ claim: JSONValue) throws(Denial) -> Int64 {
        // Up to the year 9999: no sum below overflows.
        guard case .number(let text) = claim, let seconds = Int64(text), (0...253_402_300_799).contains(seconds) else {
            throw .badClaims
        }
        return seconds
    }

    private func end(_ claims: JSONObject, at now: Timestamp) throws(Denial) -> Timestamp {
        guard let claim = claims["exp"] else { throw .badClaims }
        let end = try Self.seconds(claim)
        let ahead = now.advanced(by: leeway).microseconds
        var begin = now.microseconds / 1_000_000
        for name in ["nbf", "iat"] {
            guard let claim = claims[name] else { continue }
            let time = try Self.seconds(claim)
            guard time * 1_000_000 <= ahead else { throw .notYet }
            // An `iat` that lies ahead would let the token last longer than `maxLifetime` from now.
            if name == "iat" { begin = min(begin, time) }
        }
        guard end * 1_000_000 > now.microseconds else { throw .expired }
        guard end - begin <= maxLifetime.components.seconds else { throw .tooLong }
        return Timestamp(microseconds: end * 1_000_000)
    }

    private static func isPlain(_ text: String, _ length: ClosedRange<Int>) -> Bool {
        length.contains(text.utf8.count) && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
    }
}

// MARK: Grants

extension TokenIssuer {
    /// Type of our entries in `authorization_details` (RFC 9396).
    package static let detailType = "urn:stalecast:grant"

    private func grants(_ claims: JSONObject) throws(Denial) -> [Grant] {
        var grants = rules.filter { $0.holds(for: claims) }.map(\.grant)
        if grantsInTokens { grants += try Self.told(claims) }
        return grants
    }

    /// One that cannot be read rejects the token: what was meant to be narrow is not to become wide.
    private static func told(_ claims: JSONObject) throws(Denial) -> [Grant] {
        var entries = try list(claims["stalecast"])
        for detail in try list(claims["authorization_details"]) {
            guard var object = detail.object, let type = object["type"]?.string else { throw .badClaims }
            guard type == detailType else { continue }
            object["type"] = nil
            entries.append(.object(object))
        }
        guard entries.count <= Grant.maxPerKey else { throw .badClaims }
        var grants: [Grant] = []
        for entry in entries {
            do { grants.append(try Grant(entry, at: "grant")) } catch { throw .badClaims }
        }
        return grants
    }

    private static func list(_ claim: JSONValue?) throws(Denial) -> [JSONValue] {
        guard let claim else { return [] }
        guard let list = claim.array else { throw .badClaims }
        return list
    }
}

extension TokenIssuer.Rule {
    func holds(for claims: JSONObject) -> Bool {
        !when.isEmpty
            && when.allSatisfy { name, pattern in
                (claims[name]?.array ?? claims[name].map { [$0] } ?? []).contains {
                    $0.claimText.map(pattern.matches) ?? false
                }
            }
    }
}

extension JSONValue {
    /// Text that a rule compares.
    fileprivate var claimText: String? {
        switch self {
        case .string(let text), .number(let text): text
        case .bool(let flag): String(flag)
        default: nil
        }
    }
}
