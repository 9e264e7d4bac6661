import StalecastHTTP
import StalecastAccess

/// The API keys of `edge.apiKeys`, which Firebase's clients must show; they name an app and are no secret of a person,
/// yet are not logged.
package struct APIKeys: Sendable, Equatable {
    private let digests: [SecretDigest]

    /// Makes the set of accepted keys; an empty one admits every caller.
    package init(_ keys: [String]) { digests = keys.map { SecretDigest(of: $0) } }

    /// Mark of the key that a stream showed, so that a reload that withdraws the key ends the stream; 0: none. With 32
    /// bits a withdrawn key counts as another one for one in four billion.
    static func mark(_ offered: String?) -> UInt32 { offered.map { mark(SecretDigest(of: $0)) } ?? 0 }

    private static func mark(_ digest: SecretDigest) -> UInt32 { max(1, digest.mark) }

    /// Whether a stream that showed the key of a mark may go on.
    func admit(_ mark: UInt32) -> Bool { digests.isEmpty || digests.contains { Self.mark($0) == mark } }

    /// - Throws: 403.
    func check(_ offered: String?) throws(GoogleError) {
        guard !digests.isEmpty else { return }
        guard let offered, digests.holds(SecretDigest(of: offered)) else {
            throw GoogleError(403, "the API key is missing or not one of this server's")
        }
    }
}
