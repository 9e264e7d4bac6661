import Logging
import StalecastOutbound
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Everything about webhooks that is made at start, before anything runs.
struct WebhookParts: Sendable {
    let registry: WebhookRegistry
    let engine: OutboundEngine
    let formatter: WebhookFormatter
    let verifier: WebhookVerifier

    /// Opens the registry and starts the engine's thread; blocks on files.
    ///
    /// - Throws: ``StartError`` with what to do about it.
    init(_ configuration: Configuration, epoch: Epoch, _ logger: Logger) throws {
        do {
            registry = try WebhookRegistry(
                directory: configuration.data, keyFile: configuration.webhooks.keyFile,
                rules: configuration.webhookRules, maxPerProject: configuration.webhooks.maxPerProject)
        } catch let problem as VaultProblem {
            throw StartError("webhooks: \(problem)")
        } catch {
            throw StartError("\(configuration.data)/\(WebhookRegistry.fileName) cannot be opened: \(error)")
        }
        engine = try OutboundEngine(configuration.outboundConfiguration, logger: logger)
        formatter = WebhookFormatter(
            registry: registry, epoch: epoch, identity: configuration.senderIdentity, engine: engine)
        verifier = WebhookVerifier(registry: registry, formatter: formatter, engine: engine)
        try apply(configuration)
    }

    /// Takes over what a reload can change: rules, allowed addresses, the webhooks of the file with their secrets.
    ///
    /// - Throws: ``StartError``; then the webhooks stay as they were.
    func apply(_ configuration: Configuration) throws(StartError) {
        let configured = try configuration.configuredWebhooks()
        let before = registry.rules
        registry.setRules(configuration.webhookRules, maxPerProject: configuration.webhooks.maxPerProject)
        do {
            try registry.setConfigured(configured)
        } catch {
            registry.setRules(before, maxPerProject: configuration.webhooks.maxPerProject)
            throw StartError("webhooks: \(error)")
        }
    }
}

extension Configuration {
    fileprivate var outboundConfiguration: OutboundConfiguration {
        OutboundConfiguration(maxInFlight: webhooks.maxInFlight, threadName: "webhooks")
    }
}
