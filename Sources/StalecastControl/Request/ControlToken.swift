import Crypto

/// The bearer token of this listener, known by its SHA-256 only.
package struct ControlToken: Sendable {
    private let digest: [UInt8]

    /// - Parameter sha256: 32 bytes.
    package init(sha256: [UInt8]) {
        precondition(sha256.count == 32, "a SHA-256 has 32 bytes")
        digest = sha256
    }

    /// - Parameter secret: the token itself; it is not kept.
    package init(secret: String) { digest = Self.hash(secret) }

    /// The SHA-256 of a token, for storing it.
    package static func hash(_ secret: String) -> [UInt8] { Array(SHA256.hash(data: Array(secret.utf8))) }

    /// Whether an `Authorization` header carries the token. Takes the same time wherever a wrong token differs.
    package func admits(authorization: String?) -> Bool {
        guard let authorization else { return false }
        let parts = authorization.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return false }
        let offered = Self.hash(parts[1].trimmingBlanks())
        return zip(offered, digest).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

extension StringProtocol {
    /// Without blanks and tabs at either end.
    func trimmingBlanks() -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        var rest = self[...]
        while let first = rest.first, isBlank(first) { rest = rest.dropFirst() }
        while let last = rest.last, isBlank(last) { rest = rest.dropLast() }
        return String(rest)
    }
}
