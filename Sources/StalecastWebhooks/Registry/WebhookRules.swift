package import StalecastOutbound
package import StalecastWire

/// Rules of the operator's configuration for webhooks; checked when one is made or changed.
package struct WebhookRules: Sendable {
    /// The topics a project's webhooks can name, for the sentence of a refusal; sorted.
    package var topics: @Sendable (ProjectID) -> [TopicName]
    /// Addresses allowed besides those of the webhook's profile.
    package var allowed: [CIDR]
    /// Directory of files that are named through the API; nil refuses such names.
    package var filesDirectory: String?
    /// Refuses `http:` URLs. Default false.
    package var httpsOnly: Bool
    /// Profile of webhooks that name none. Default `public`.
    package var defaultProfile = AddressPolicy.Profile.public

    package init(
        topics: @escaping @Sendable (ProjectID) -> [TopicName], allowed: [CIDR] = [], filesDirectory: String? = nil,
        httpsOnly: Bool = false
    ) {
        self.topics = topics
        self.allowed = allowed
        self.filesDirectory = filesDirectory
        self.httpsOnly = httpsOnly
    }

    /// Whether webhooks of a project can subscribe to a topic.
    func isKnownTopic(_ project: ProjectID, _ topic: TopicName) -> Bool {
        TopicName.operations.contains(topic) || topics(project).contains(topic)
    }

    /// The policy under which requests of a webhook are sent.
    package func policy(of profile: AddressPolicy.Profile) -> AddressPolicy {
        AddressPolicy(profile: profile, allow: allowed)
    }
}
