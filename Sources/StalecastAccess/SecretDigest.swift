import Crypto

/// The SHA-256 of a secret, which is all that is kept of one.
package struct SecretDigest: Sendable, Hashable {
    package let bytes: [UInt8]

    /// - Parameter bytes: 32 of them.
    package init?(bytes: [UInt8]) {
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }

    package init(of secret: some StringProtocol) { bytes = Array(SHA256.hash(data: Array(secret.utf8))) }

    package init(of bytes: [UInt8]) { self.bytes = Array(SHA256.hash(data: bytes)) }

    /// 64 hexadecimal digits.
    package init?(hexadecimal text: String) {
        let digits = text.compactMap(\.hexDigitValue)
        guard digits.count == 64, text.utf8.count == 64 else { return nil }
        bytes = stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    package var hexadecimal: String {
        bytes.map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }.joined()
    }

    /// Takes the same time wherever the two differ.
    package func matches(_ other: SecretDigest) -> Bool {
        zip(bytes, other.bytes).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    /// What no secret has, for comparing where there is nothing to compare with.
    static let none = SecretDigest(zeros: ())

    private init(zeros: Void) { bytes = [UInt8](repeating: 0, count: SHA256.byteCount) }
}
