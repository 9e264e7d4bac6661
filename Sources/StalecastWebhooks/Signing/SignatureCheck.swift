import Crypto
package import StalecastWire

/// A receiver's view: whether a request was signed by the holder of a secret, as Standard Webhooks demands.
package struct SignatureCheck: Sendable {
    private let key: VerificationKey
    /// How far `webhook-timestamp` may be from the receiver's clock, in both directions. Default 300 s.
    private let tolerance: Duration

    package init(key: VerificationKey, tolerance: Duration = .seconds(300)) {
        self.key = key
        self.tolerance = tolerance
    }

    /// Returns when one of the signatures is ours and the time is right.
    ///
    /// - Parameter now: nil does not look at the time.
    /// - Throws: ``SignatureProblem``.
    package func verify(
        messageID: String, timestamp: String, signatures: String, body: [UInt8], at now: Timestamp?
    ) throws(SignatureProblem) {
        guard let seconds = Int64(timestamp) else { throw .notATime(timestamp) }
        let signed = Array("\(messageID).\(timestamp).".utf8) + body
        let words = signatures.split(separator: " ")
        let ofScheme = words.filter { $0.hasPrefix(key.scheme + ",") }
        if ofScheme.isEmpty { throw .noneOfScheme(key.scheme, found: words.map { String($0.prefix { $0 != "," }) }) }
        guard ofScheme.contains(where: { key.accepts($0.dropFirst(key.scheme.count + 1), of: signed) }) else {
            throw .mismatch
        }
        // Judged last: with a right signature a wrong time is worth knowing.
        guard let now else { return }
        let age = Duration.microseconds(now.microseconds) - .seconds(seconds)
        if age > tolerance { throw .tooOld(age) }
        if age < .zero - tolerance { throw .fromTheFuture(.zero - age) }
    }
}

/// Why a request is not to be trusted.
package enum SignatureProblem: Error, Hashable, CustomStringConvertible {
    case notATime(String)
    /// No signature of the key's scheme (`v1`, `v1a`) is there; `found` are the schemes that are.
    case noneOfScheme(String, found: [String])
    case mismatch
    case tooOld(Duration)
    case fromTheFuture(Duration)

    package var description: String {
        switch self {
        case .notATime(let text): "webhook-timestamp \"\(text)\" is not a number of seconds since 1970"
        case .noneOfScheme(let scheme, let found):
            "there is no \(scheme) signature, which this key verifies; there is \(found.joined(separator: ", "))"
        case .mismatch:
            "no signature fits: another secret, or another id, timestamp or body than was signed (the body must be "
                + "exactly the bytes received)"
        case .tooOld(let age): "the signature fits, but was made \(age.components.seconds) s ago"
        case .fromTheFuture(let lead):
            "the signature fits, but its time is \(lead.components.seconds) s ahead of this clock"
        }
    }
}

/// What a receiver holds: the shared secret (`whsec_`), or the public key (`whpk_`) of an Ed25519 pair; the pair's
/// secret (`whsk_`) does too.
package struct VerificationKey: Sendable {
    private enum State: Sendable {
        case hmac(SymmetricKey)
        case ed25519(Curve25519.Signing.PublicKey)
    }

    private let state: State

    /// `v1` or `v1a`.
    package var scheme: String { if case .hmac = state { "v1" } else { "v1a" } }

    /// - Throws: ``InvalidKey`` with a sentence that does not repeat the text.
    package init(_ text: String) throws(InvalidKey) {
        let text = text.trimmingWhitespace()
        guard text.hasPrefix("whpk_") else {
            let key = try SigningKey(text)
            state = try Self.state(of: key)
            return
        }
        guard let bytes = Base64.decode(text.dropFirst(5)), bytes.count == 32 else {
            throw InvalidKey("a public key is whpk_ followed by 32 bytes in base64")
        }
        state = .ed25519(try Self.publicKey(bytes))
    }

    private static func state(of key: SigningKey) throws(InvalidKey) -> State {
        switch key.algorithm {
        case .hmacSHA256: .hmac(SymmetricKey(data: key.bytes))
        case .ed25519: .ed25519(try publicKey(Array(key.bytes.suffix(32))))
        }
    }

    private static func publicKey(_ bytes: [UInt8]) throws(InvalidKey) -> Curve25519.Signing.PublicKey {
        do {
            return try Curve25519.Signing.PublicKey(rawRepresentation: bytes)
        } catch {
            throw InvalidKey("these 32 bytes are no Ed25519 public key")
        }
    }

    /// Compares in constant time.
    func accepts(_ signature: Substring, of signed: [UInt8]) -> Bool {
        guard let bytes = Base64.decode(signature) else { return false }
        switch state {
        case .hmac(let key): return HMAC<SHA256>.isValidAuthenticationCode(bytes, authenticating: signed, using: key)
        case .ed25519(let key): return key.isValidSignature(bytes, for: signed)
        }
    }
}
