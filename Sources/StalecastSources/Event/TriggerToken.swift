import Crypto
package import StalecastWire

/// A token with which a sender may make one scope's source look, and nothing else: for those that can set only a URL or
/// an `Authorization` header. Kept as its SHA-256.
package struct TriggerToken: Sendable, Hashable {
    /// Digests are compared in a time that does not depend on where they differ.
    private let digest: SHA256.Digest

    /// A token that is shorter can be guessed.
    package static let minBytes = 24

    /// - Throws: ``InvalidValue``, which does not repeat the text, for a token that is too short, or has characters a URL
    ///   or header would change.
    package init(_ text: String) throws(InvalidValue) {
        let isSafe = text.utf8.allSatisfy { $0.isTokenByte }
        guard text.utf8.count >= Self.minBytes, isSafe else {
            throw InvalidValue(
                "a trigger token has at least \(Self.minBytes) characters of A-Z a-z 0-9 - _ . ~, for example the output "
                    + "of: openssl rand -hex 32")
        }
        digest = Self.hash(text)
    }

    /// Whether `offered` is one of `tokens`: all of them are compared, each in the same time.
    ///
    /// - Returns: the indices that match.
    package static func matches(_ offered: String, among tokens: [TriggerToken]) -> [Int] {
        let hash = hash(offered)
        return tokens.indices.filter { tokens[$0].digest == hash }
    }

    private static func hash(_ text: String) -> SHA256.Digest { SHA256.hash(data: Array(text.utf8)) }
}

extension UInt8 {
    fileprivate var isTokenByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }
}
