package import StalecastWire

/// One message owed to one webhook, as it is when an attempt starts.
package struct Delivery: Sendable, Hashable {
    package let webhook: WebhookID
    package let content: Content
    package let attempt: Int

    package init(webhook: WebhookID, content: Content, attempt: Int = 1) {
        self.webhook = webhook
        self.content = content
        self.attempt = attempt
    }

    /// Indirect: an attempt is passed on several times.
    package indirect enum Content: Sendable, Hashable {
        case stale(Delivery.StaleContent)
        /// Asked for by the operator; `nonce` (`[a-z2-7]`, as an epoch has) makes its message id. `current` is
        /// the newest version one of its topics was told of, nil before the first: formats without a word for
        /// "test" repeat it.
        case test(nonce: String, topic: TopicName, project: ProjectID, current: TemplateChange?)
        case operational(Delivery.OperationalEvent)
        /// The question of ``Verification/Method/challenge``.
        case challenge(String)
    }
}

extension Delivery {
    /// Content of a STALE message to a webhook.
    package struct StaleContent: Sendable, Hashable {
        package let topic: TopicName
        package let change: TemplateChange
        /// The version of this scope the webhook acknowledged last; nil when none is known.
        package let since: VersionNumber?
        /// Number of versions between `since` and this one that were folded into this message.
        package let coalesced: Int
        /// The union of changed parameter names since `since`; nil means "anything may have changed".
        package let changedKeys: [String]?

        package init(
            topic: TopicName, change: TemplateChange, since: VersionNumber?, coalesced: Int = 0, changedKeys: [String]?
        ) {
            self.topic = topic
            self.change = change
            self.since = since
            self.coalesced = coalesced
            self.changedKeys = changedKeys
        }
    }

    /// A message about a webhook rather than about a template, sent to those subscribed to
    /// ``StalecastWire/TopicName/webhookOperations``.
    package struct OperationalEvent: Sendable, Hashable {
        /// Type, for example `webhook.disabled`, `webhook.recovered`.
        package let type: String
        package let project: ProjectID
        package let time: Timestamp
        /// Distinguishes two events of one type for one webhook; makes the message id.
        package let nonce: String
        /// The member `data` of the message: `webhook` (its id), `url` without the query, which others than its owner are not
        /// told; `reason` and `failedAttempts` of a disabled one, `failingSince` of one that recovered.
        package let data: JSONValue

        package init(type: String, project: ProjectID, time: Timestamp, nonce: String, data: JSONValue) {
            self.type = type
            self.project = project
            self.time = time
            self.nonce = nonce
            self.data = data
        }
    }
}
