import Crypto

/// A token with which a sender may make one scope's source look, and nothing else: for those that can set only a URL or
/// an `Authorization` header. Kept as its SHA-256.
package struct TriggerToken: Sendable, Hashable {
    private let digest: [UInt8]

    /// A token that is shorter can be guessed.
    package static let minBytes = 24

    /// - Throws: ``TriggerToken/Invalid`` for a token that is too short, or has characters a URL or header would
    ///   change.
    package init(_ text: String) throws(Invalid) {
        let isSafe = text.utf8.allSatisfy { $0.isTokenByte }
        guard text.utf8.count >= Self.minBytes, isSafe else { throw Invalid() }
        digest = Self.hash(text)
    }

    /// Whether `offered` is one of `tokens`: all of them are compared, each in the same time.
    ///
    /// - Returns: the indices that match.
    package static func matches(_ offered: String, among tokens: [TriggerToken]) -> [Int] {
        let hash = hash(offered)
        return tokens.indices.filter { index in
            zip(hash, tokens[index].digest).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
        }
    }

    private static func hash(_ text: String) -> [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }

    /// Reason why a text is no trigger token; does not repeat the text.
    package struct Invalid: Error, Hashable, CustomStringConvertible {
        package var description: String {
            "a trigger token has at least \(TriggerToken.minBytes) characters of A-Z a-z 0-9 - _ . ~, for example the "
                + "output of: openssl rand -hex 32"
        }
    }
}

extension UInt8 {
    fileprivate var isTokenByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }
}
