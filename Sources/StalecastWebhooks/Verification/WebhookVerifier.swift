package import StalecastOutbound
package import StalecastWire
import Synchronization

/// Asks the receivers that have to be asked: once right after a webhook was made or its URL changed, twice more if that
/// fails, and whenever its owner wants.
package final class WebhookVerifier: Sendable {
    private let registry: WebhookRegistry
    private let formatter: WebhookFormatter
    private let engine: OutboundEngine
    private let clock: @Sendable () -> Timestamp
    private let waiting = Mutex<Set<WebhookID>>([])
    private let signal: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    /// Waits before the second and the third question.
    private static let pauses: [Duration] = [.seconds(5), .seconds(25)]

    package init(
        registry: WebhookRegistry, formatter: WebhookFormatter, engine: OutboundEngine,
        clock: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) {
        self.registry = registry
        self.formatter = formatter
        self.engine = engine
        self.clock = clock
        // One pending signal says as much as many.
        (signal, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Asks the webhook's receiver soon, if it has to be asked. Called on any thread; quick.
    package func consider(_ webhook: Webhook) {
        guard !webhook.verification.isSatisfied, !webhook.isPaused else { return }
        waiting.withLock { _ = $0.insert(webhook.id) }
        wake.yield()
    }

    /// Asks now.
    ///
    /// - Throws: ``RegistryProblem/notNow(_:)`` when the receiver did not agree, with the reason.
    package func verify(_ webhook: Webhook) async throws(RegistryProblem) -> RegistryEntry {
        let question = ConsentQuestion(webhook: webhook, formatter: formatter, engine: engine)
        return try await registry.recordConsent(webhook, allowedPerMinute: question.ask(at: clock()))
    }

    /// Serves ``consider(_:)`` until cancelled.
    package func run() async {
        await withDiscardingTaskGroup { group in
            for await _ in signal {
                let ids = waiting.withLock { waiting in
                    defer { waiting = [] }
                    return waiting
                }
                for id in ids { group.addTask { await self.ask(id) } }
            }
            group.cancelAll()
        }
    }

    private func ask(_ id: WebhookID) async {
        for pause in [.zero] + Self.pauses {
            do { try await Task.sleep(for: pause) } catch { return }
            guard let webhook = registry.webhook(id), !webhook.verification.isSatisfied, !webhook.isPaused else {
                return
            }
            // A refusal is no news here: the webhook stays unverified and says so.
            if (try? await verify(webhook)) != nil { return }
        }
    }
}
