import Crypto
import StalecastHTTP
import Synchronization

/// The bearer token of this listener, known by its SHA-256 only. A reload may replace it.
package final class ControlToken: Sendable {
    private let digest: Mutex<[UInt8]>

    /// - Parameter sha256: 32 bytes.
    package init(sha256: [UInt8]) {
        precondition(sha256.count == 32, "a SHA-256 has 32 bytes")
        digest = Mutex(sha256)
    }

    /// - Parameter secret: the token itself; it is not kept.
    package init(secret: String) { digest = Mutex(Self.hash(secret)) }

    /// From the next request on only the other token is admitted.
    ///
    /// - Returns: whether it was another one before.
    package func replace(sha256: [UInt8]) -> Bool {
        precondition(sha256.count == 32, "a SHA-256 has 32 bytes")
        return digest.withLock { digest in
            defer { digest = sha256 }
            return digest != sha256
        }
    }

    /// The SHA-256 of a token, for storing it.
    package static func hash(_ secret: String) -> [UInt8] { Array(SHA256.hash(data: Array(secret.utf8))) }

    /// Whether an `Authorization` header carries the token. Takes the same time wherever a wrong token differs.
    package func admits(authorization: String?) -> Bool {
        guard let authorization else { return false }
        let parts = authorization.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return false }
        let offered = Self.hash(String(parts[1].trimmingBlanks()))
        return zip(offered, digest.withLock { $0 }).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
