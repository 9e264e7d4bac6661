import Foundation
import Logging
import NIOPosix
import ServiceLifecycle
import StalecastAccess
import StalecastControl
import StalecastHTTP
import StalecastHub
import StalecastOutbound
import StalecastSources
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// A running private listener on a free port, with store, hub and webhooks of its own in a temporary directory.
struct ControlFixture: Sendable {
    static let secret = "a-token-for-tests"
    static let prefix = "/v1/projects/demo/remoteConfig"

    let port: Int
    let store: TemplateStore
    let sent: SentMessages
    let tally: ControlTally
    let stop: @Sendable () async -> Void

    /// Messages that `messages:send` handed on.
    final class SentMessages: Sendable {
        private let messages = Mutex<[DataMessage]>([])
        var all: [DataMessage] { messages.withLock { $0 } }
        func append(_ event: Hub.Event) {
            if case .data(let message) = event { messages.withLock { $0.append(message) } }
        }
    }

    /// Serves for as long as `body` runs, then stops gracefully.
    static func serving<Value: Sendable>(
        _ adjust: (inout ControlConfiguration) -> Void = { _ in },
        storing: (inout StoreConfiguration) -> Void = { _ in },
        readiness: @escaping @Sendable () -> [String] = { [] }, cluster: ClusterService? = nil,
        relay: MessageRelay? = nil,
        _ body: (ControlFixture) async throws -> Value
    ) async throws -> Value {
        let directory = FileManager.default.temporaryDirectory.appending(path: "stalecast-control-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }  // a leftover does no harm
        var storeConfiguration = StoreConfiguration(directory: directory.path)
        storing(&storeConfiguration)
        let store = try TemplateStore.open(storeConfiguration)
        defer { store.close() }
        var configuration = ControlConfiguration()
        // On a busy machine a test may be slower than a client is allowed to be.
        configuration.connections.headTimeout = .seconds(600)
        configuration.projects.namespaces = Dictionary(
            uniqueKeysWithValues: store.projects.projects.map { ($0.id, [.firebase, .firebaseServer]) })
        adjust(&configuration)
        let (ports, bound) = AsyncStream.makeStream(of: Int.self)
        let scope = Scope(project: .demo, namespace: .firebase)
        let hub = Hub(
            board: TopicBoard(
                epoch: store.epoch, head: 0,
                bindings: [
                    TopicBinding(name: .pushRC, scopes: [scope]),
                    TopicBinding(name: try TopicName("payments"), scopes: [scope], keys: [try KeyPattern("pay_*")]),
                ], changes: []))
        let sent = SentMessages()
        _ = hub.attach { sent.append($0) }
        let webhooks = try Webhooks(directory.path, store.epoch)
        let tally = ControlTally()
        let control = Control(
            configuration, access: Authorizer(bootstrap: SecretDigest(of: secret)), store: store, hub: hub,
            webhooks: webhooks.service,
            triggers: TriggerService(targets: []), tally: tally,
            reports: ControlReports(
                presence: { _, _ in [.pushRC: ["sse": 3]] }, metrics: { "# TYPE up gauge\nup 1\n" },
                status: { ["state": "serving"] },
                timeline: { ["since": "2026-11-20T13:00:00.000000Z"] }, readiness: { readiness() }),
            cluster: cluster, relay: relay)
        let server = ControlServer(control, eventLoopGroup: MultiThreadedEventLoopGroup.singleton) { bound.yield($0) }
        let group = ServiceGroup(services: [server], logger: quiet)
        let result = try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { bound.finish() }
                try await group.run()
            }
            guard let port = await ports.first(where: { _ in true }) else { throw NotBound() }
            let fixture = ControlFixture(port: port, store: store, sent: sent, tally: tally) {
                await group.triggerGracefulShutdown()
            }
            let result = await Result { try await body(fixture) }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return result
        }
        await webhooks.stop()
        return try result.get()
    }

    private struct NotBound: Error {}

    private static let quiet = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    /// Registry and delivery, without an address that could be reached.
    private struct Webhooks {
        let service: WebhookService
        private let registry: WebhookRegistry
        private let engine: OutboundEngine
        private let delivery: WebhookDelivery

        init(_ directory: String, _ epoch: Epoch) throws {
            registry = try WebhookRegistry(
                directory: directory,
                rules: WebhookRules(
                    topics: { _ in [.pushRC] }, allowed: [], filesDirectory: directory, httpsOnly: false))
            engine = try OutboundEngine(OutboundConfiguration(maxInFlight: 8))
            let formatter = WebhookFormatter(
                registry: registry, epoch: epoch, identity: WebhookFormatter.Sender(version: "0", origin: "test"),
                engine: engine
            )
            delivery = try WebhookDelivery(
                DeliveryConfiguration(path: "\(directory)/deliveries.sqlite"), epoch: epoch, engine: engine,
                formatter: formatter, routes: [], history: { _, _, _ in [] }, logger: quiet)
            let delivery = delivery
            registry.observe { change in
                if case .installed(let webhook) = change { delivery.install(webhook) }
            }
            try delivery.start(webhooks: [], changes: [])
            service = WebhookService(
                registry: registry,
                verifier: WebhookVerifier(registry: registry, formatter: formatter, engine: engine),
                delivery: delivery, rollouts: RolloutTracker(), logger: quiet)
        }

        func stop() async {
            delivery.stop()
            await engine.shutdown(grace: .zero)
            delivery.close()
            registry.close()
        }
    }

    /// Sends one request with the token and returns its answer.
    func send(
        _ method: String, _ target: String, _ headers: [String: String] = [:], body: [UInt8] = [],
        token: String? = ControlFixture.secret
    ) async throws -> HTTPReply {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
        if let token { head += "Authorization: Bearer \(token)\r\n" }
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if !body.isEmpty { head += "Content-Length: \(body.count)\r\n" }
        let bytes = try await raw(Array((head + "\r\n").utf8) + body)
        let replies = HTTPReply.all(in: bytes, isHead: method == "HEAD")
        return try #require(replies.first, "\(method) \(target)")
    }

    /// Publishes a template with one parameter.
    @discardableResult
    func publish(_ value: String, ifMatch: String = "*", query: String = "") async throws -> HTTPReply {
        try await send(
            "PUT", Self.prefix + query, ["If-Match": ifMatch],
            body: Array(#"{"parameters":{"greeting":{"defaultValue":{"value":"\#(value)"}}}}"#.utf8))
    }

    /// Sends bytes and returns what comes until the server closes.
    func raw(_ bytes: [UInt8]) async throws -> [UInt8] { try await RawConnection.exchange(port: port, bytes) }

    /// The complete answers to bytes of one's own making.
    func replies(_ bytes: [UInt8]) async throws -> [HTTPReply] { HTTPReply.all(in: try await raw(bytes)) }

    func replies(_ text: String) async throws -> [HTTPReply] { try await replies(Array(text.utf8)) }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
