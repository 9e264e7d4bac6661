package import StalecastWire

/// The three headers of a Standard-Webhooks-signed request.
package struct SignedPost: Sendable, Hashable {
    /// The idempotency key: the same on every retry.
    package let id: String
    package let timestamp: String
    package let signatures: String

    /// Largest distance of the timestamp from our clock, both ways, as the reference libraries have it.
    package static let tolerance = Duration.seconds(300)

    /// A sender that rotates its keys signs with each of them; senders have few.
    private static let maxSignatures = 16
    /// A signature is at most `v1a,` and 88 characters.
    private static let maxSignatureBytes = maxSignatures * 96

    /// - Parameter headers: by lower-case name.
    /// - Returns: nil when one of the headers is missing or cannot be right whatever the key: an id with a dot would
    ///   make the signed text ambiguous, a time out of tolerance is a replay or a wrong clock.
    package init?(headers: [String: String], now: Timestamp) {
        guard let id = headers["webhook-id"], let timestamp = headers["webhook-timestamp"],
            let signatures = headers["webhook-signature"], (1...Self.maxSignatureBytes).contains(signatures.utf8.count),
            signatures.utf8.count(where: { $0 == UInt8(ascii: " ") }) < Self.maxSignatures,
            (1...256).contains(id.utf8.count), !id.utf8.contains(UInt8(ascii: ".")), timestamp.utf8.count <= 12,
            timestamp.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seconds = Int64(timestamp)
        else { return nil }
        let age = Duration.microseconds(now.microseconds) - .seconds(seconds)
        guard age <= Self.tolerance, age >= .zero - Self.tolerance else { return nil }
        (self.id, self.timestamp, self.signatures) = (id, timestamp, signatures)
    }

    /// A key that senders sign with by Standard Webhooks; the daemon makes it from the key's text. One object for one key,
    /// however many scopes it opens: a post is hashed once for each of them.
    package final class Key: Sendable {
        /// True when one of the signatures is right. The time is checked by ``SignedPost``.
        let accepts: @Sendable (_ post: SignedPost, _ body: [UInt8]) -> Bool

        package init(_ accepts: @escaping @Sendable (_ post: SignedPost, _ body: [UInt8]) -> Bool) {
            self.accepts = accepts
        }
    }
}
