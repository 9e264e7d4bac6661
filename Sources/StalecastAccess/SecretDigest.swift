import Crypto

/// The SHA-256 of a secret, which is all that is kept of one.
package struct SecretDigest: Sendable, Hashable {
    /// Words in place: one is made for every connection with a credential.
    private let words: SIMD4<UInt64>

    private init(words: SIMD4<UInt64>) { self.words = words }

    private init(_ hash: SHA256.Digest) { words = hash.withUnsafeBytes { $0.loadUnaligned(as: SIMD4<UInt64>.self) } }

    /// - Parameter bytes: 32 of them.
    package init?(bytes: [UInt8]) {
        guard bytes.count == SHA256.byteCount else { return nil }
        words = bytes.withUnsafeBytes { $0.loadUnaligned(as: SIMD4<UInt64>.self) }
    }

    package init(of secret: String) {
        var (secret, hash) = (secret, SHA256())
        secret.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        self.init(hash.finalize())
    }

    /// The first 32 bits: enough to tell the secrets of one list apart, and not enough to be one.
    package var mark: UInt32 { UInt32(truncatingIfNeeded: words[0]) }

    package init(of bytes: [UInt8]) { self.init(SHA256.hash(data: bytes)) }

    /// 64 hexadecimal digits.
    package init?(hexadecimal text: String) {
        let digits = text.compactMap(\.hexDigitValue)
        guard digits.count == 64, text.utf8.count == 64 else { return nil }
        self.init(bytes: stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) })
    }

    package var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

    package var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Takes the same time wherever the two differ.
    package func matches(_ other: SecretDigest) -> Bool {
        let difference = words ^ other.words
        return difference[0] | difference[1] | difference[2] | difference[3] == 0
    }

    /// Digest of no secret, for comparing where there is nothing to compare with.
    static let none = SecretDigest(words: .zero)
}
