import Crypto
package import StalecastWire

/// Signs what one webhook is sent: with its current key and with every old one that is still in its grace period.
/// Keys are prepared once; a signature by HMAC then costs two short hashes.
package struct Signer: Sendable {
    private let keys: [Signer.PreparedKey]

    /// - Parameter keys: the current one first.
    package init(_ keys: [Signer.SecretKey]) { self.keys = keys.map(Signer.PreparedKey.init) }

    /// The value of `webhook-signature`: `v1,<base64>` per key, separated by blanks; empty without a valid key.
    ///
    /// - Parameters:
    ///   - timestamp: whole seconds since 1970, as in `webhook-timestamp`.
    ///   - now: which keys count.
    package func signatures(
        messageID: String, timestamp: Int64, body: [UInt8], at now: Timestamp
    ) -> String {
        signatures(of: Self.content(messageID: messageID, timestamp: timestamp, body: body), at: now)
    }

    /// Bytes that every key signs: they are the same for all webhooks that get one message within a second.
    static func content(messageID: String, timestamp: Int64, body: [UInt8]) -> [UInt8] {
        Array("\(messageID).\(timestamp).".utf8) + body
    }

    /// - Parameter content: made by ``content(messageID:timestamp:body:)``.
    func signatures(of content: [UInt8], at now: Timestamp) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(96)
        for key in keys where key.isValid(at: now) {
            if !text.isEmpty { text.append(UInt8(ascii: " ")) }
            key.appendSignature(content, to: &text)
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension Signer {
    /// A key of a webhook with its time.
    package struct SecretKey: Sendable, Equatable {
        package let key: SigningKey
        package let createdAt: Timestamp
        /// Time from which it no longer signs; nil for the current key.
        package var expiresAt: Timestamp?

        package init(_ key: SigningKey, createdAt: Timestamp, expiresAt: Timestamp? = nil) {
            self.key = key
            self.createdAt = createdAt
            self.expiresAt = expiresAt
        }
    }

    /// A key in the form in which signing is cheap.
    fileprivate struct PreparedKey: Sendable {
        private enum State: Sendable {
            /// The hash state after the padded key: copied, not computed, for each signature.
            case hmac(HMAC<SHA256>)
            case ed25519(Curve25519.Signing.PrivateKey)
        }

        private let state: State
        private let expiresAt: Timestamp?

        init(_ secret: Signer.SecretKey) {
            expiresAt = secret.expiresAt
            switch secret.key.algorithm {
            case .hmacSHA256: state = .hmac(HMAC(key: SymmetricKey(data: secret.key.bytes)))
            case .ed25519: state = .ed25519(secret.key.privateKey)
            }
        }

        func isValid(at now: Timestamp) -> Bool { expiresAt.map { now < $0 } ?? true }

        func appendSignature(_ content: [UInt8], to text: inout [UInt8]) {
            switch state {
            case .hmac(var code):
                code.update(data: content)
                text.append(contentsOf: "v1,".utf8)
                code.finalize().withUnsafeBytes { Base64.append($0, to: &text) }
            case .ed25519(let key):
                text.append(contentsOf: "v1a,".utf8)
                key.checkedSignature(for: content).withUnsafeBytes { Base64.append($0, to: &text) }
            }
        }
    }
}

extension SigningKey {
    /// The Ed25519 key; only for that algorithm.
    fileprivate var privateKey: Curve25519.Signing.PrivateKey {
        do {
            return try Curve25519.Signing.PrivateKey(rawRepresentation: bytes.prefix(32))
        } catch {
            preconditionFailure("32 bytes are an Ed25519 seed: \(error)")
        }
    }
}

extension Curve25519.Signing.PrivateKey {
    /// Signing fails only without memory.
    fileprivate func checkedSignature(for data: [UInt8]) -> [UInt8] {
        do {
            return try Array(signature(for: data))
        } catch {
            preconditionFailure("Ed25519 cannot sign: \(error)")
        }
    }
}
