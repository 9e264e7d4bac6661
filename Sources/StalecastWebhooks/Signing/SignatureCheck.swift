import Crypto
package import StalecastWire

/// A receiver's view: whether a request was signed by the holder of a secret, as Standard Webhooks demands.
package struct SignatureCheck: Sendable {
    private let key: VerificationKey
    /// Largest distance of `webhook-timestamp` from the receiver's clock, in both directions. Default 300 s.
    private let tolerance: Duration

    package init(key: VerificationKey, tolerance: Duration = .seconds(300)) {
        self.key = key
        self.tolerance = tolerance
    }

    /// Signatures of one header at most: a webhook signs with its key and ten old ones.
    package static let maxSignatures = 16
    /// Sixteen of the longest, `v1a,` and 88 characters, and room for schemes that are not ours.
    private static let maxHeaderBytes = 4096
    /// Times in `webhook-timestamp`: the year 5138 is far enough.
    private static let timeRange: Range<Int64> = 0..<100_000_000_000

    /// Returns when one of the signatures is ours and the time is right.
    ///
    /// Strangers choose the header: its length is judged first, and the body is hashed once, whatever the header says.
    ///
    /// - Parameter now: nil does not look at the time.
    package func verify(
        messageID: String, timestamp: String, signatures: String, body: [UInt8], at now: Timestamp?
    ) throws(SignatureCheck.Problem) {
        guard let seconds = Int64(timestamp), Self.timeRange.contains(seconds) else {
            throw .notATime(String(timestamp.prefix(40)))
        }
        guard signatures.utf8.count <= Self.maxHeaderBytes else { throw .tooMany }
        let words = signatures.split(separator: " ", maxSplits: Self.maxSignatures)
        guard words.count <= Self.maxSignatures else { throw .tooMany }
        let ofScheme = words.filter { $0.hasPrefix(key.scheme + ",") }
        if ofScheme.isEmpty {
            throw .noneOfScheme(key.scheme, found: words.map { String($0.prefix { $0 != "," }.prefix(20)) })
        }
        let codes = ofScheme.compactMap { key.code(in: $0.dropFirst(key.scheme.count + 1)) }
        guard !codes.isEmpty, key.accepts(anyOf: codes, of: Array("\(messageID).\(timestamp).".utf8), body) else {
            throw .mismatch
        }
        // Judged last: with a right signature a wrong time is worth knowing.
        guard let now else { return }
        let age = Duration.microseconds(now.microseconds) - .seconds(seconds)
        if age > tolerance { throw .tooOld(age) }
        if age < .zero - tolerance { throw .fromTheFuture(.zero - age) }
    }
}

extension SignatureCheck {
    /// Reason why a request is not to be trusted.
    package enum Problem: Error, Hashable, CustomStringConvertible {
        case notATime(String)
        /// No signature of the key's scheme (`v1`, `v1a`) is there; `found` are the schemes that are.
        case noneOfScheme(String, found: [String])
        /// More than ``SignatureCheck/maxSignatures``, or a header longer than so many can be.
        case tooMany
        case mismatch
        case tooOld(Duration)
        case fromTheFuture(Duration)

        package var description: String {
            switch self {
            case .notATime(let text): "webhook-timestamp \"\(text)\" is not a number of seconds since 1970"
            case .noneOfScheme(let scheme, let found):
                "there is no \(scheme) signature, which this key verifies; there is \(found.joined(separator: ", "))"
            case .tooMany: "webhook-signature has more than \(SignatureCheck.maxSignatures) signatures"
            case .mismatch:
                "no signature fits: another secret, or another id, timestamp or body than was signed (the body must be "
                    + "exactly the bytes received)"
            case .tooOld(let age): "the signature fits, but was made \(age.components.seconds) s ago"
            case .fromTheFuture(let lead):
                "the signature fits, but its time is \(lead.components.seconds) s ahead of this clock"
            }
        }
    }
}

/// Key that a receiver holds: the shared secret (`whsec_`), or the public key (`whpk_`) of an Ed25519 pair; the pair's
/// secret (`whsk_`) does too.
package struct VerificationKey: Sendable {
    private enum State: Sendable {
        case hmac(SymmetricKey)
        case ed25519(Curve25519.Signing.PublicKey)
    }

    private let state: State

    /// `v1` or `v1a`.
    package var scheme: String { if case .hmac = state { "v1" } else { "v1a" } }

    /// - Throws: ``SigningKey.Invalid`` with a sentence that does not repeat the text.
    package init(_ text: String) throws(SigningKey.Invalid) {
        let text = text.trimmingWhitespace()
        guard text.hasPrefix("whpk_") else {
            let key = try SigningKey(text)
            state = try Self.state(of: key)
            return
        }
        guard let bytes = Base64.decode(text.dropFirst(5)), bytes.count == 32 else {
            throw SigningKey.Invalid("a public key is whpk_ followed by 32 bytes in base64")
        }
        state = .ed25519(try Self.publicKey(bytes))
    }

    private static func state(of key: SigningKey) throws(SigningKey.Invalid) -> State {
        switch key.algorithm {
        case .hmacSHA256: .hmac(SymmetricKey(data: key.bytes))
        case .ed25519: .ed25519(try publicKey(Array(key.bytes.suffix(32))))
        }
    }

    private static func publicKey(_ bytes: [UInt8]) throws(SigningKey.Invalid) -> Curve25519.Signing.PublicKey {
        do {
            return try Curve25519.Signing.PublicKey(rawRepresentation: bytes)
        } catch {
            throw SigningKey.Invalid("these 32 bytes are no Ed25519 public key")
        }
    }

    /// The bytes of a signature; nil for a word that cannot be one of this scheme, which costs no hashing.
    func code(in word: Substring) -> [UInt8]? {
        let count = if case .hmac = state { SHA256.byteCount } else { 64 }
        // Base64 with its padding; some leave that out.
        guard word.utf8.count <= (count + 2) / 3 * 4, let bytes = Base64.decode(word), bytes.count == count else {
            return nil
        }
        return bytes
    }

    /// Compares in constant time.
    func accepts(anyOf codes: [[UInt8]], of prefix: [UInt8], _ body: [UInt8]) -> Bool {
        switch state {
        case .hmac(let key):
            var own = HMAC<SHA256>(key: key)
            own.update(data: prefix)
            own.update(data: body)
            let ownCode = own.finalize()
            // swift-crypto compares a code with bytes in constant time.
            return codes.contains { ownCode == $0 }
        case .ed25519(let key):
            let signed = prefix + body
            return codes.contains { key.isValidSignature($0, for: signed) }
        }
    }
}
