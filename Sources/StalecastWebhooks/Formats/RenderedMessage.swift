import StalecastOutbound
import StalecastWire
import Synchronization

/// A message as bytes, the same for every webhook it goes to in this format and from this version on.
final class RenderedMessage: Sendable {
    let id: String
    let body: OutboundBody
    /// `Content-Type`, `webhook-id`, a CloudEvent's attributes, `User-Agent`.
    let headers: OutboundHeaderLines
    private let signable = Mutex<Signable?>(nil)

    init(id: String, body: [UInt8], headers: [OutboundHeader]) {
        self.id = id
        self.body = OutboundBody(body)
        self.headers = OutboundHeaderLines(headers)
    }

    /// Part of a signature that is the same for all webhooks.
    struct Signable {
        let seconds: Int64
        let content: [UInt8]
        /// `webhook-timestamp` and the beginning of `webhook-signature`.
        let lines: [UInt8]
    }

    /// Bytes to sign at a time, in whole seconds since 1970; made once a second.
    func signable(at seconds: Int64) -> Signable {
        signable.withLock { known in
            if let known, known.seconds == seconds { return known }
            let new = Signable(
                seconds: seconds, content: Signer.content(messageID: id, timestamp: seconds, body: body.bytes),
                lines: Array("webhook-timestamp: \(seconds)\r\nwebhook-signature: ".utf8))
            known = new
            return new
        }
    }
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
        private struct Messages {
            var byKey: [RenderedMessage.Key: RenderedMessage] = [:]
            /// The one asked for last: a publish asks for it thousands of times, and comparing costs less than hashing.
            var last: (key: RenderedMessage.Key, message: RenderedMessage)?

            mutating func find(_ key: RenderedMessage.Key) -> RenderedMessage? {
                if let last, last.key == key { return last.message }
                guard let message = byKey[key] else { return nil }
                last = (key, message)
                return message
            }
        }

        private let messages = Mutex(Messages())
        /// Stragglers have versions of their own; when they are too many, everything is rendered anew.
        private static let capacity = 512

        func message(
            _ key: RenderedMessage.Key, render: () throws(AttemptProblem) -> RenderedMessage
        ) throws(AttemptProblem) -> RenderedMessage {
            if let known = messages.withLock({ $0.find(key) }) { return known }
            // Outside the lock: two threads may render the same message, and either will do.
            let message = try render()
            messages.withLock { messages in
                if messages.byKey.count >= Self.capacity { messages.byKey.removeAll(keepingCapacity: true) }
                messages.byKey[key] = message
            }
            return message
        }
    }
}
