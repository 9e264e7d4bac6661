import StalecastOutbound
import StalecastWire
import Synchronization

/// A message as bytes, the same for every webhook it goes to in this format and from this version on.
struct RenderedMessage: Sendable {
    let id: String
    let body: [UInt8]
    /// `Content-Type`, `webhook-id`, a CloudEvent's attributes.
    let headers: [OutboundHeader]
}

extension RenderedMessage {
    /// Facts on which a STALE message's bytes depend.
    struct Key: Hashable {
        let format: WebhookFormat
        let topic: TopicName
        let sequence: CommitSequence
        let since: VersionNumber?
        let coalesced: Int

        init(_ content: Delivery.StaleContent, _ format: WebhookFormat) {
            self.format = format
            topic = content.topic
            sequence = content.change.sequence
            since = content.since
            coalesced = content.coalesced
        }
    }

    /// The STALE messages rendered last: one publish to ten thousand webhooks is rendered once, because almost all of them
    /// acknowledged the same version before it.
    final class Cache: Sendable {
        private let messages = Mutex<[RenderedMessage.Key: RenderedMessage]>([:])
        /// Stragglers have versions of their own; when they are too many, everything is rendered anew.
        private static let capacity = 512

        func message(_ key: RenderedMessage.Key, render: () -> RenderedMessage) -> RenderedMessage {
            if let known = messages.withLock({ $0[key] }) { return known }
            let message = render()
            messages.withLock { messages in
                if messages.count >= Self.capacity { messages.removeAll(keepingCapacity: true) }
                messages[key] = message
            }
            return message
        }
    }
}
