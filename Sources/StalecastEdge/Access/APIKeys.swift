import StalecastHTTP
import StalecastAccess

/// The API keys of `edge.apiKeys`, which Firebase's clients must show; they name an app and are no secret of a person,
/// yet are not logged.
package struct APIKeys: Sendable, Equatable {
    private let digests: [SecretDigest]

    /// Without any, everybody is admitted.
    package init(_ keys: [String]) { digests = keys.map { SecretDigest(of: $0) } }

    /// - Throws: 403.
    func check(_ offered: String?) throws(GoogleError) {
        guard !digests.isEmpty else { return }
        guard let offered, digests.holds(SecretDigest(of: offered)) else {
            throw GoogleError(403, "the API key is missing or not one of this server's")
        }
    }
}
