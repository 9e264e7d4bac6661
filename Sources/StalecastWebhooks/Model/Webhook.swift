package import StalecastOutbound
package import StalecastWire

/// A registered URL: who is told, about what, how. Secrets are not part of it.
package struct Webhook: Sendable, Equatable {
    package let id: WebhookID
    /// Project whose scopes alone the webhook gets, whatever else its topics are bound to.
    package let project: ProjectID
    /// The name of an entry of the configuration file; nil for those made through the API.
    package let name: String?
    /// Complete URL to which requests go.
    package var url: OutboundURL
    /// Topics, at least one, without repetition. ``TopicName/webhookOperations`` is delivery's own.
    package var topics: [TopicName]
    package var format: WebhookFormat
    package var mode: DeliveryMode
    /// Sent with every request besides the format's own; none of ``ReservedHeaders``.
    package var headers: [OutboundHeader]
    package var limits: WebhookLimits
    private var reach: Reach
    /// Settings of ``WebhookFormat/fcm``; nil for every other format.
    package var fcm: Webhook.FCMSettings?
    package var verification: Verification
    /// Description for people; at most 256 characters.
    package var description: String
    /// Stopped by the operator.
    package var isPaused: Bool
    private var record: Record

    package enum Origin: String, Sendable, Hashable {
        case api
        /// Configuration file: changed only there; it can be paused and resumed.
        case configuration
    }

    package init(
        id: WebhookID, project: ProjectID, name: String? = nil, url: OutboundURL, topics: [TopicName] = [.pushRC],
        format: WebhookFormat = .standard, mode: DeliveryMode = .latest, headers: [OutboundHeader] = [],
        limits: WebhookLimits = WebhookLimits(), tls: OutboundTLS? = nil, profile: AddressPolicy.Profile = .public,
        fcm: Webhook.FCMSettings? = nil, verification: Verification = Verification(), description: String = "",
        isPaused: Bool = false, origin: Origin = .api, createdAt: Timestamp, updatedAt: Timestamp? = nil,
        generation: Int = 1
    ) {
        self.id = id
        self.project = project
        self.name = name
        self.url = url
        self.topics = topics
        self.format = format
        self.mode = mode
        self.headers = headers
        self.limits = limits
        reach = Reach(tls: tls, profile: profile)
        self.fcm = fcm
        self.verification = verification
        self.description = description
        self.isPaused = isPaused
        record = Record(
            origin: origin, createdAt: createdAt, updatedAt: updatedAt ?? createdAt, generation: generation)
    }

    /// Whether deliveries may be sent as far as the registry is concerned; delivery may still have disabled it.
    package var isDeliverable: Bool { !isPaused && verification.isSatisfied }

    /// The lower of the operator's and the receiver's rate; nil is no limit.
    package var ratePerSecond: Double? {
        let granted = verification.allowedPerMinute.map { Double($0) / 60 }
        return [limits.maxPerSecond, granted].compactMap { $0 }.min()
    }

    /// Whether a change of `scope` concerns it, its topics aside.
    package func covers(_ scope: Scope) -> Bool { scope.project == project }
}

extension Webhook {
    private struct Reach: Equatable {
        var tls: OutboundTLS?
        var profile: AddressPolicy.Profile
    }

    /// The registry's notes about it.
    private struct Record: Equatable {
        let origin: Origin
        let createdAt: Timestamp
        var updatedAt: Timestamp
        var generation: Int
        var since: [TopicName: Cursor] = [:]
    }

    /// Private CA, client certificate; nil for the system's trust and no certificate.
    package var tls: OutboundTLS? {
        get { reach.tls }
        set { reach.tls = newValue }
    }
    /// Addresses to which the name may lead, besides those the configuration allows.
    package var profile: AddressPolicy.Profile {
        get { reach.profile }
        set { reach.profile = newValue }
    }

    package var origin: Origin { record.origin }
    package var createdAt: Timestamp { record.createdAt }
    package var updatedAt: Timestamp {
        get { record.updatedAt }
        set { record.updatedAt = newValue }
    }
    /// Counts up with every change, from 1; the source of the resource's etag.
    package var generation: Int {
        get { record.generation }
        set { record.generation = newValue }
    }
    /// Position in the history of the node that gave it a topic, at that time; on one node of several. What is later is
    /// owed to it, however late the node that delivers hears of it. Topics from before there were several are not
    /// there.
    package var since: [TopicName: Cursor] {
        get { record.since }
        set { record.since = newValue }
    }

    package struct FCMSettings: Sendable, Hashable {
        /// Path of the service account's key file (JSON).
        package var serviceAccountFile: String
        /// URL where tokens are fetched; nil is the key file's `token_uri`.
        package var tokenURL: OutboundURL?

        package init(serviceAccountFile: String, tokenURL: OutboundURL? = nil) {
            self.serviceAccountFile = serviceAccountFile
            self.tokenURL = tokenURL
        }
    }
}
