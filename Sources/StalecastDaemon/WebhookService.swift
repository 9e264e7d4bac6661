import ServiceLifecycle
import StalecastOutbound
import StalecastWebhooks

/// Webhooks as a service: asks receivers for their consent while it runs, and ends deliveries well.
struct WebhookService: Service {
    let webhooks: WebhookParts
    let ending: WebhookEnding

    /// Attempts under way have so long to finish; what is cut off is owed still and sent after the next start.
    private static let grace: Duration = .seconds(8)

    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await webhooks.verifier.run() }
            await ending.wait()
            group.cancelAll()
        }
        webhooks.delivery.stop()
        await webhooks.engine.shutdown(grace: Self.grace)
        webhooks.delivery.close()
        webhooks.registry.close()
        // Cancellation means another service failed: the end is the same.
        try? await gracefulShutdown()
    }
}

/// Tells ``WebhookService`` to end. A service of its own, because services end one after the other, and webhooks need
/// not wait until Edge has drained.
struct WebhookEnding: Service {
    private let signal: AsyncStream<Void>
    private let end: AsyncStream<Void>.Continuation

    init() { (signal, end) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1)) }

    func run() async throws {
        // Cancelled or asked nicely: it is the end.
        try? await gracefulShutdown()
        end.finish()
    }

    /// Returns at the end.
    fileprivate func wait() async { for await _ in signal {} }
}
