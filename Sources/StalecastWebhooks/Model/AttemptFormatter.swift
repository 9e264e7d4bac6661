package import StalecastOutbound
package import StalecastWire
import Synchronization

/// Makes the HTTP request of an attempt. Called at dispatch, on the engine's thread: it must not block.
package protocol AttemptFormatter: Sendable {
    /// The request, signed for `now`.
    func request(
        for delivery: Delivery, webhook: RegisteredWebhook, at now: Timestamp
    ) throws(AttemptProblem) -> AttemptPlan

    /// Tells of an answer, so that credentials which were refused (401, 403) are fetched anew.
    func answered(status: Int, to request: OutboundRequest, webhook: Webhook)
}

/// A webhook as its attempts share it: passed on with one reference count instead of one for each of its parts.
package final class RegisteredWebhook: Sendable {
    package let webhook: Webhook
    /// Parts of requests that the formatter keeps from one attempt to the next.
    let prepared = Mutex<Prepared?>(nil)

    package init(_ webhook: Webhook) { self.webhook = webhook }

    struct Prepared {
        let target: OutboundTarget
        let signer: Signer?
        /// ``WebhookRegistry/changes`` before it was made: another number voids it.
        let changes: UInt64
    }
}

package enum AttemptPlan: Sendable {
    /// Send this. `messageID` is the `webhook-id`: the same for every attempt of one version.
    case ready(OutboundRequest, messageID: String)
    /// Await the closure off the engine's thread, then ask again; what it throws is a failed attempt.
    case needsToken(@Sendable () async throws(AttemptProblem) -> Void)
}

/// Reason why no request could be made; an attempt with it has failed without having touched the network.
package struct AttemptProblem: Error, Sendable, Hashable, CustomStringConvertible {
    /// A stable token for log, metric and attempt list.
    package let reason: Reason
    /// A sentence for the webhook's owner; contains no secret.
    package let description: String

    package enum Reason: String, Sendable, Hashable, CaseIterable {
        /// The webhook has no usable signing key.
        case noKey = "no_key"
        /// The token endpoint refused or could not be reached.
        case token
        /// The delivery cannot be said in this format (an operational message to `fcm`): retrying is of no use.
        case unsupported
    }

    package init(_ reason: Reason, _ description: String) {
        self.reason = reason
        self.description = description
    }
}
