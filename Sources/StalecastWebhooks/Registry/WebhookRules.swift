package import StalecastOutbound
package import StalecastWire

/// Rules of the operator's configuration for webhooks; checked when one is made or changed.
package struct WebhookRules: Sendable {
    /// Whether webhooks of a project can subscribe to a topic.
    package var isKnownTopic: @Sendable (ProjectID, TopicName) -> Bool
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
        isKnownTopic = { project, topic in TopicName.operations.contains(topic) || topics(project).contains(topic) }
        self.allowed = allowed
        self.filesDirectory = filesDirectory
        self.httpsOnly = httpsOnly
    }

    /// The policy under which requests of a webhook are sent.
    package func policy(of profile: AddressPolicy.Profile) -> AddressPolicy {
        AddressPolicy(profile: profile, allow: allowed)
    }
}
