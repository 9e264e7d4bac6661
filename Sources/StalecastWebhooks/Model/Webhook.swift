package import StalecastOutbound
package import StalecastWire

/// A registered URL: who is told, about what, how. Secrets are not part of it. The members of its ``settings`` are
/// members of it as well.
@dynamicMemberLookup
package struct Webhook: Sendable, Equatable {
    package let id: WebhookID
    /// Project whose scopes alone the webhook gets, whatever else its topics are bound to.
    package let project: ProjectID
    /// The name of an entry of the configuration file; nil for those made through the API.
    package let name: String?
    /// Complete URL to which requests go.
    package var url: OutboundURL
    package var settings: WebhookSettings
    package let createdAt: Timestamp
    package var updatedAt: Timestamp
    /// Counts up with every change, from 1; the source of the resource's etag.
    package var generation: Int
    /// Position in the history of the node that gave it a topic, at that time; on one node of several. What is later is
    /// owed to it, however late the node that delivers hears of it. Topics from before there were several are not
    /// there.
    package var since: [TopicName: Cursor] = [:]

    package enum Origin: String, Sendable, Hashable {
        case api
        /// Configuration file: changed only there; it can be paused and resumed.
        case configuration
    }

    package init(
        id: WebhookID, project: ProjectID, name: String? = nil, url: OutboundURL, settings: WebhookSettings,
        createdAt: Timestamp, updatedAt: Timestamp? = nil, generation: Int = 1
    ) {
        (self.id, self.project, self.name) = (id, project, name)
        (self.url, self.settings, self.generation) = (url, settings, generation)
        (self.createdAt, self.updatedAt) = (createdAt, updatedAt ?? createdAt)
    }

    package subscript<Value>(dynamicMember path: WritableKeyPath<WebhookSettings, Value>) -> Value {
        get { settings[keyPath: path] }
        set { settings[keyPath: path] = newValue }
    }

    package var origin: Origin { name == nil ? .api : .configuration }

    /// Whether deliveries may be sent as far as the registry is concerned; delivery may still have disabled it.
    package var isDeliverable: Bool { !settings.isPaused && settings.verification.isSatisfied }

    /// The lower of the operator's and the receiver's rate; nil is no limit.
    package var ratePerSecond: Double? {
        let granted = settings.verification.allowedPerMinute.map { Double($0) / 60 }
        return [settings.limits.maxPerSecond, granted].compactMap { $0 }.min()
    }

    /// Whether a change of `scope` concerns it, its topics aside.
    package func covers(_ scope: Scope) -> Bool { scope.project == project }
}
