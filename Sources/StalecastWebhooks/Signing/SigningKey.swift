import Crypto
import StalecastWire

/// A webhook's secret as Standard Webhooks writes it: `whsec_` (HMAC-SHA256, signatures `v1`) or `whsk_` (Ed25519,
/// signatures `v1a`), then base64. Its description does not tell it.
package struct SigningKey: Sendable, Equatable, CustomStringConvertible {
    package let algorithm: Algorithm
    /// HMAC: the key. Ed25519: the seed of 32 bytes and the public key of 32 bytes.
    let bytes: [UInt8]

    package enum Algorithm: String, Sendable, CaseIterable {
        /// `v1`; what every receiver's library knows. The default.
        case hmacSHA256 = "hmac-sha256"
        /// `v1a`: the receiver holds only a public key. Few libraries verify it yet.
        case ed25519

        var secretPrefix: String { self == .hmacSHA256 ? "whsec_" : "whsk_" }
    }

    /// Bytes of a generated HMAC key; the specification asks for 24 to 64.
    private static let generatedBytes = 32
    private static let hmacBytes = 24...64
    private static let publicPrefix = "whpk_"

    private init(_ algorithm: Algorithm, _ bytes: [UInt8]) {
        self.algorithm = algorithm
        self.bytes = bytes
    }

    /// A new key from the system's secure generator.
    package static func generate(_ algorithm: Algorithm) -> SigningKey {
        switch algorithm {
        case .hmacSHA256:
            SigningKey(.hmacSHA256, SymmetricKey(size: .init(bitCount: generatedBytes * 8)).withUnsafeBytes(Array.init))
        case .ed25519: SigningKey(Curve25519.Signing.PrivateKey())
        }
    }

    private init(_ key: Curve25519.Signing.PrivateKey) {
        self.init(.ed25519, Array(key.rawRepresentation) + Array(key.publicKey.rawRepresentation))
    }

    /// Reads a secret; blanks around it are ignored, `whsec_` may be missing, an Ed25519 secret has 32 or 64 bytes.
    ///
    /// - Throws: ``SigningKey.Invalid`` with a sentence that does not repeat the text.
    package init(_ text: String) throws(SigningKey.Invalid) {
        let text = text.trimmingWhitespace()
        if text.hasPrefix(Self.publicPrefix) {
            throw SigningKey.Invalid("this is a public key (whpk_); signing needs the secret key (whsk_)")
        }
        let algorithm = text.hasPrefix(Algorithm.ed25519.secretPrefix) ? Algorithm.ed25519 : .hmacSHA256
        let encoded = text.hasPrefix(algorithm.secretPrefix) ? text.dropFirst(algorithm.secretPrefix.count) : text[...]
        guard !encoded.isEmpty, let bytes = Base64.decode(encoded) else {
            throw SigningKey.Invalid("a secret is whsec_ or whsk_ followed by base64")
        }
        switch algorithm {
        case .hmacSHA256: try self.init(hmac: bytes)
        case .ed25519: try self.init(ed25519: bytes)
        }
    }

    private init(hmac bytes: [UInt8]) throws(SigningKey.Invalid) {
        guard Self.hmacBytes.contains(bytes.count) else {
            throw SigningKey.Invalid("a whsec_ secret has 24 to 64 bytes; this one has \(bytes.count)")
        }
        self.init(.hmacSHA256, bytes)
    }

    private init(ed25519 bytes: [UInt8]) throws(SigningKey.Invalid) {
        guard bytes.count == 32 || bytes.count == 64,
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: bytes.prefix(32))
        else { throw SigningKey.Invalid("a whsk_ secret has 32 or 64 bytes; this one has \(bytes.count)") }
        self.init(key)
        guard self.bytes.starts(with: bytes) else {
            throw SigningKey.Invalid("the second half of this whsk_ secret is not the public key of its first half")
        }
    }

    /// The secret itself, to be shown once or sealed.
    package var secretText: String { algorithm.secretPrefix + Base64.encode(bytes) }

    /// `whpk_…` for Ed25519; nil for HMAC, which has no public half.
    package var publicText: String? {
        algorithm == .ed25519 ? Self.publicPrefix + Base64.encode(bytes.suffix(32)) : nil
    }

    package var description: String { "this \(algorithm.rawValue) key" }
}

extension SigningKey {
    /// Reason why a text is not a key: a sentence that never contains the text, which may be a secret.
    package struct Invalid: Error, Hashable, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }
}

extension String {
    /// Text without blanks and line ends at both ends.
    func trimmingWhitespace() -> String {
        var rest = self[...].drop(while: \.isWhitespace)
        while rest.last?.isWhitespace == true { rest.removeLast() }
        return String(rest)
    }
}
