package import StalecastOutbound
package import StalecastWire

extension Configuration {
    /// Registered URLs and how they are sent to.
    package struct Webhooks: Sendable, Equatable {
        /// Webhooks that are registered here; others are made through the API.
        package var receivers: [Receiver] = []
        /// Ranges that may be called besides those of a webhook's address profile.
        package var allowedAddresses: [CIDR] = []
        /// The profile of webhooks that do not name one.
        package var addressProfile = AddressPolicy.Profile.public
        /// True refuses `http:` URLs of new webhooks.
        package var httpsOnly = false
        /// File with the key that secrets are sealed with; nil: `webhooks.key` in the data directory.
        package var keyFile: String?
        /// Directory of files that are named through the API; nil refuses such names.
        package var filesDirectory: String?
        /// The DNS name in CloudEvents' `WebHook-Request-Origin`; empty: this host's name.
        package var requestOrigin = ""
        /// Webhooks of one project made through the API.
        package var maxPerProject = 10_000
        package var maxInFlight = 512
        /// Time that a webhook fails before it is disabled.
        package var disableAfter: Duration = .seconds(5 * 86_400)
        package var attemptRetention: Duration = .seconds(14 * 86_400)
        package var deadLetterRetention: Duration = .seconds(30 * 86_400)
    }

    /// One webhook of the file. Settings are kept as the API's document spells them, where they are understood and
    /// checked.
    package struct Receiver: Sendable, Equatable {
        /// Unique within the project.
        package var name: String
        package var project: ProjectID
        package var topics: [TopicName]
        package var document: JSONValue
        /// The current secret's file first; the others go on signing.
        package var secretFiles: [String]
    }
}
