import Crypto
import CryptoExtras
import StalecastWire

/// The keys of one issuer, as a JWK set (RFC 7517) has them. What cannot be used is left out, one by one.
package struct KeySet: Sendable {
    package let keys: [TokenKey]
    /// Number of keys of the set that cannot be used here.
    package let skipped: Int

    package static let maxBytes = 256 << 10
    package static let maxKeys = 64

    /// Reason why a text is no key set; a sentence.
    package struct Unusable: Error, CustomStringConvertible { package let description: String }

    /// - Throws: when there is no key in it that could verify anything.
    package init(_ bytes: [UInt8], for algorithms: Set<TokenAlgorithm>) throws(Unusable) {
        guard bytes.count <= Self.maxBytes else {
            throw Unusable(description: "the key set has more than \(Self.maxBytes) bytes")
        }
        guard let list = JSONValue.ifValid(bytes, maxDepth: 16)?["keys"]?.array else {
            throw Unusable(description: "there is no key set: an object with a list of keys is expected")
        }
        guard list.count <= Self.maxKeys else {
            throw Unusable(description: "the key set has more than \(Self.maxKeys) keys")
        }
        let usable = list.flatMap { json in algorithms.compactMap { TokenKey(json, as: $0) } }
        // Two keys that answer to one name: neither is the one that was meant.
        let places = Dictionary(grouping: usable) { $0.place }
        keys = usable.filter { key in (places[key.place] ?? []).allSatisfy { $0.digest == key.digest } }
        skipped = list.count - Set(keys.map(\.digest)).count
        if keys.isEmpty { throw Unusable(description: "none of the \(list.count) keys can be used") }
    }

    /// The key that a header names; a token without `kid` is for the key without one.
    func key(_ id: String?, _ algorithm: TokenAlgorithm) -> TokenKey? {
        let place = TokenKey.Place(id: id.map { Array($0.utf8) }, algorithm: algorithm)
        return keys.first { $0.place == place }
    }

    func contains(_ digest: SecretDigest) -> Bool { keys.contains { $0.digest == digest } }
}

/// One key, for one algorithm.
package struct TokenKey: Sendable {
    /// Index of a key: texts are compared by bytes.
    struct Place: Hashable {
        let id: [UInt8]?
        let algorithm: TokenAlgorithm
    }

    let place: Place
    /// Digest of all its values.
    let digest: SecretDigest
    private let material: Material

    private enum Material: Sendable {
        case p256(P256.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)
        case rsa(_RSA.Signing.PublicKey)
        case secret(SymmetricKey)
    }

    /// Modulus lengths, in bits.
    private static let rsaBits = 2048...8192
    private static let maxIDBytes = 256

    /// nil for a key that is not for this algorithm, or not for signatures, or too weak.
    init?(_ json: JSONValue, as algorithm: TokenAlgorithm) {
        guard let object = json.object, Self.isForSignatures(object),
            let material = Self.material(object, algorithm)
        else { return nil }
        // A key that names its algorithm (RFC 7517, section 4.4) serves that one alone (RFC 8725, section 3.1).
        if let named = object["alg"], named.string.flatMap(TokenAlgorithm.init(jose:)) != algorithm { return nil }
        var id: [UInt8]?
        if let kid = object["kid"] {
            guard let text = kid.string, (1...Self.maxIDBytes).contains(text.utf8.count) else { return nil }
            id = Array(text.utf8)
        }
        self.material = material
        place = Place(id: id, algorithm: algorithm)
        let names = ["kty", "crv", "kid", "x", "y", "n", "e", "k"]
        digest = SecretDigest(
            of: algorithm.rawValue + names.map { "\u{0}\(object[$0]?.string ?? "")" }.joined())
    }

    private static func isForSignatures(_ object: JSONObject) -> Bool {
        if let use = object["use"], use.string != "sig" { return false }
        guard let operations = object["key_ops"] else { return true }
        return operations.array?.contains(.string("verify")) ?? false
    }

    private static func material(_ object: JSONObject, _ algorithm: TokenAlgorithm) -> Material? {
        func bytes(_ name: String) -> [UInt8]? { object[name]?.string.flatMap { Base64URL.decode($0.utf8) } }
        let kind = object["kty"]?.string
        let curve = object["crv"]?.string
        // What a library refuses is no key, whatever its words.
        switch algorithm {
        case .es256:
            guard kind == "EC", curve == "P-256", let x = bytes("x"), let y = bytes("y"), x.count == 32, y.count == 32
            else { return nil }
            // A point off the curve is not a key. 4 announces a point that is not compressed (SEC 1 §2.3.3).
            return (try? P256.Signing.PublicKey(x963Representation: [4] + x + y)).map(Material.p256)
        case .eddsa:
            guard kind == "OKP", curve == "Ed25519", let x = bytes("x"), x.count == 32 else { return nil }
            // Wrong length: no key.
            return (try? Curve25519.Signing.PublicKey(rawRepresentation: x)).map(Material.ed25519)
        case .rs256:
            // Unusable numbers: no key.
            guard kind == "RSA", let n = bytes("n"), let e = bytes("e"), n.first != 0, (1...8).contains(e.count),
                n.count <= rsaBits.upperBound / 8, let key = try? _RSA.Signing.PublicKey(n: n, e: e),
                rsaBits.contains(key.keySizeInBits)
            else { return nil }
            return .rsa(key)
        case .hs256:
            guard kind == "oct", let k = bytes("k"), k.count >= 32 else { return nil }
            return .secret(SymmetricKey(data: k))
        }
    }

    /// 2.4 µs for a secret, 20 for RSA, 70 to 80 for the curves.
    func verifies(_ signature: [UInt8], of signed: [UInt8]) -> Bool {
        switch material {
        case .p256(let key):
            // Wrong length: not a signature.
            guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: signed)
        case .ed25519(let key): return signature.count == 64 && key.isValidSignature(signature, for: signed)
        case .rsa(let key):
            return signature.count == (key.keySizeInBits + 7) / 8
                && key.isValidSignature(
                    _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: signed),
                    padding: .insecurePKCS1v1_5)
        case .secret(let key):
            return HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: signed, using: key)
        }
    }
}
