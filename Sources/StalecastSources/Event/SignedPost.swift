package import StalecastWire

/// Verifies one signature of Standard Webhooks with one key; the daemon makes it from the key's text. The time is
/// checked by ``SignedPost``.
///
/// - Returns: true when one of the signatures is right.
package typealias SignatureVerifier =
    @Sendable (_ id: String, _ timestamp: String, _ signatures: String, _ body: [UInt8]) -> Bool

/// The three headers of a Standard-Webhooks-signed request.
package struct SignedPost: Sendable, Hashable {
    /// The idempotency key: the same on every retry.
    package let id: String
    package let timestamp: String
    package let signatures: String

    /// How far the timestamp may be from our clock, both ways, as the reference libraries have it.
    package static let tolerance = Duration.seconds(300)

    /// - Parameter headers: by lower-case name.
    /// - Returns: nil when one of the headers is missing or cannot be right whatever the key: an id with a dot would
    ///   make the signed text ambiguous, a time out of tolerance is a replay or a wrong clock.
    package init?(headers: [String: String], now: Timestamp) {
        guard let id = headers["webhook-id"], let timestamp = headers["webhook-timestamp"],
            let signatures = headers["webhook-signature"], !signatures.isEmpty, (1...256).contains(id.utf8.count),
            !id.utf8.contains(UInt8(ascii: ".")), timestamp.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let seconds = Int64(timestamp), seconds < 1 << 40
        else { return nil }
        let age = Duration.microseconds(now.microseconds) - .seconds(seconds)
        guard age <= Self.tolerance, age >= .zero - Self.tolerance else { return nil }
        self.id = id
        self.timestamp = timestamp
        self.signatures = signatures
    }

    /// - Returns: the indices of the verifiers that accept; all are asked.
    package func accepted(by verifiers: [SignatureVerifier], body: [UInt8]) -> [Int] {
        verifiers.indices.filter { verifiers[$0](id, timestamp, signatures, body) }
    }
}
