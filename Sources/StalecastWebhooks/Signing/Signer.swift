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
        var text: [UInt8] = []
        appendSignatures(
            of: Self.content(messageID: messageID, timestamp: timestamp, body: body), at: now, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Bytes that every key signs: they are the same for all webhooks that get one message within a second.
    static func content(messageID: String, timestamp: Int64, body: [UInt8]) -> [UInt8] {
        Array("\(messageID).\(timestamp).".utf8) + body
    }

    /// - Parameter content: made by ``content(messageID:timestamp:body:)``.
    /// - Returns: false without a valid key.
    @discardableResult
    func appendSignatures(of content: [UInt8], at now: Timestamp, to text: inout [UInt8]) -> Bool {
        var isSigned = false
        for key in keys where key.isValid(at: now) {
            if isSigned { text.append(UInt8(ascii: " ")) }
            key.appendSignature(content, to: &text)
            isSigned = true
        }
        return isSigned
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
            /// HMAC's two hashes (RFC 2104) after the padded key: copied, not computed, for each signature. `HMAC` itself
            /// would go through generic code for each piece.
            case hmac(inner: SHA256, outer: SHA256)
            case ed25519(Curve25519.Signing.PrivateKey)
        }

        private let state: State
        private let expiresAt: Timestamp?

        init(_ secret: Signer.SecretKey) {
            expiresAt = secret.expiresAt
            switch secret.key.algorithm {
            case .hmacSHA256:
                // No key is longer than a block of the hash, which would have to be hashed first.
                let padded =
                    secret.key.bytes + [UInt8](repeating: 0, count: SHA256.blockByteCount - secret.key.bytes.count)
                state = .hmac(inner: Self.begun(padded, 0x36), outer: Self.begun(padded, 0x5C))
            case .ed25519: state = .ed25519(secret.key.privateKey)
            }
        }

        private static func begun(_ key: [UInt8], _ mask: UInt8) -> SHA256 {
            var hash = SHA256()
            hash.update(data: key.map { $0 ^ mask })
            return hash
        }

        func isValid(at now: Timestamp) -> Bool { expiresAt.map { now < $0 } ?? true }

        func appendSignature(_ content: [UInt8], to text: inout [UInt8]) {
            switch state {
            case .hmac(var inner, var outer):
                content.withUnsafeBytes { inner.update(bufferPointer: $0) }
                inner.finalize().withUnsafeBytes { outer.update(bufferPointer: $0) }
                text.append(contentsOf: "v1,".utf8)
                outer.finalize().withUnsafeBytes { Base64.append($0, to: &text) }
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
