import Foundation
import Logging
import StalecastHub
import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// Deliveries from a store that is a list in memory, to servers on 127.0.0.1.
final class DeliveryFixture: Sendable {
    static let scope = (try? Scope(project: ProjectID("demo"), namespace: .firebase))!
    let directory: URL
    let store = Mutex<[TemplateChange]>([])
    let epoch = Mutex(Epoch.random())
    private let running = Mutex<(engine: OutboundEngine, delivery: WebhookDelivery)?>(nil)
    private let configuration: DeliveryConfiguration
    private let outbound: OutboundConfiguration
    private let formatter: any AttemptFormatter
    private let keys: [KeyPattern]

    /// - Parameters:
    ///   - keys: patterns of the only topic; empty for all.
    ///   - adjust: what is not as tests mostly want it.
    init(
        outbound: OutboundConfiguration = OutboundConfiguration(maxInFlight: 4096),
        formatter: any AttemptFormatter = PlainFormatter(), keys: [String] = [],
        _ adjust: (inout DeliveryConfiguration) -> Void = { _ in }
    ) throws {
        self.keys = try keys.map { try KeyPattern($0) }
        directory = FileManager.default.temporaryDirectory.appending(path: "stalecast-delivery-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        var configuration = DeliveryConfiguration(
            path: directory.appending(path: "deliveries.sqlite").path, disableAfter: .seconds(86_400), pace: .quick)
        adjust(&configuration)
        self.configuration = configuration
        self.outbound = outbound
        self.formatter = formatter
    }

    deinit {
        // A leftover does no harm.
        try? FileManager.default.removeItem(at: directory)
    }

    /// Runs delivery, without webhooks at first, for the time of `body`.
    static func running(
        pace: DeliveryConfiguration.Pace = .quick, maxInFlight: Int = 512, disableAfter: Duration = .seconds(86_400),
        _ body: (DeliveryFixture) async throws -> Void
    ) async throws {
        let fixture = try DeliveryFixture {
            $0.pace = pace
            $0.maxInFlight = maxInFlight
            $0.disableAfter = disableAfter
        }
        try await fixture.run { try await body($0) }
    }

    /// One run of delivery from start to end.
    ///
    /// - Parameter remembered: of how many of the newest versions it is told at the start; others are in the store.
    func run(
        _ webhooks: [Webhook] = [], remembered: Int = 300, _ body: (DeliveryFixture) async throws -> Void
    ) async throws {
        try start(webhooks, remembered: remembered)
        do {
            try await body(self)
        } catch {
            await end()
            throw error
        }
        await end()
    }

    var databasePath: String { configuration.path }

    var delivery: WebhookDelivery {
        get throws { try #require(running.withLock { $0?.delivery }) }
    }

    func start(_ webhooks: [Webhook], remembered: Int = 300) throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let engine = try OutboundEngine(outbound)
        let delivery = try WebhookDelivery(
            configuration, epoch: epoch.withLock { $0 }, engine: engine, formatter: formatter,
            routes: [TopicBinding(name: .pushRC, scopes: [Self.scope], keys: keys)],
            history: { [self] scope, after, limit in
                Array(store.withLock { $0.filter { $0.scope == scope && $0.sequence > after }.prefix(limit) })
            }, logger: logger)
        running.withLock { $0 = (engine, delivery) }
        try delivery.start(webhooks: webhooks, changes: Array(store.withLock { $0 }.suffix(remembered)))
    }

    /// Ends as a crash would: nothing more is sent or written than already is.
    ///
    /// - Parameter grace: time for attempts under way.
    func end(grace: Duration = .zero) async {
        guard let (engine, delivery) = running.withLock({ $0 }) else { return }
        running.withLock { $0 = nil }
        #expect(await delivery.checkConsistency() == [])
        delivery.stop()
        await engine.shutdown(grace: grace)
        delivery.close()
    }

    func publish(_ count: Int = 1) throws {
        for _ in 0..<count { try delivery.announce(commit(), at: OutboundEngine.now()) }
    }

    /// Stores the next version without an announcement.
    ///
    /// - Parameters:
    ///   - given: its number, which an origin may give; counted if nil.
    ///   - time: the origin's, which may be any.
    @discardableResult
    func commit(_ given: VersionNumber? = nil, at time: Timestamp = .now()) -> TemplateChange {
        store.withLock { store in
            let number = given ?? VersionNumber(clamping: store.count + 1)
            let change = TemplateChange(
                scope: Self.scope, sequence: UInt64(store.count + 1),
                metadata: VersionMetadata(number: number, updateTime: time), etag: "etag-1-\(number)",
                changedKeys: ["key\(number)"])
            store.append(change)
            return change
        }
    }

    /// A webhook to that URL; made before any version unless said otherwise.
    static func webhook(
        _ url: String, mode: DeliveryMode = .latest, topics: [TopicName] = [.pushRC],
        limits: WebhookLimits = WebhookLimits(timeout: .seconds(30))
    ) throws -> Webhook {
        Webhook(
            id: .random(), project: scope.project, url: try OutboundURL(url), topics: topics, mode: mode,
            limits: limits, createdAt: Timestamp(microseconds: 0))
    }

    func webhook(
        _ url: String, mode: DeliveryMode = .latest, topics: [TopicName] = [.pushRC],
        limits: WebhookLimits = WebhookLimits(timeout: .seconds(30))
    ) throws -> Webhook {
        try Self.webhook(url, mode: mode, topics: topics, limits: limits)
    }

    func install(_ webhook: Webhook) throws -> Webhook {
        try delivery.install(webhook)
        return webhook
    }

    /// Waits until the webhook has acknowledged the store's newest version.
    func settled(_ id: WebhookID, within limit: Duration = .seconds(120)) async throws {
        try await eventually(within: limit) {
            guard let status = try await self.delivery.status(of: id), let scope = status.scopes.first else {
                return false
            }
            return scope.acknowledged == self.store.withLock { VersionNumber(clamping: $0.count) }
        }
    }
}

// MARK: Looking

extension DeliveryFixture {
    /// True once the webhook has acknowledged everything it has been told of.
    func isDone(_ webhook: Webhook) async throws -> Bool {
        guard let status = try await delivery.status(of: webhook.id) else { return false }
        return status.scopes.allSatisfy { $0.lag == 0 && !$0.isInFlight }
    }

    func state(_ webhook: Webhook) async throws -> WebhookState? { try await delivery.status(of: webhook.id)?.state }

    /// Oldest first.
    func attempts(_ webhook: Webhook) throws -> [DeliveryAttempt] {
        try delivery.attempts(of: webhook.id, limit: 10_000, before: nil).attempts.reversed()
    }

    func deadLetters(_ webhook: Webhook) throws -> [DeadLetter] {
        try delivery.deadLetters(of: webhook.id, limit: 1000, after: nil).letters
    }
}

extension DeliveryConfiguration.Pace {
    /// A thousand times faster than the real one.
    static var quick: DeliveryConfiguration.Pace {
        var pace = DeliveryConfiguration.Pace()
        pace.floor = .milliseconds(2)
        pace.base = .milliseconds(2)
        pace.cap = .milliseconds(50)
        pace.versionBase = .milliseconds(2)
        pace.versionCap = .milliseconds(50)
        pace.throttleFloor = .milliseconds(30)
        pace.slowFloor = .milliseconds(100)
        pace.goneAfter = .milliseconds(60)
        pace.probeAfter = .milliseconds(30)
        pace.slowAfter = .milliseconds(50)
        pace.startSpread = .milliseconds(5)
        return pace
    }
}

/// Unsigned bodies that a test can read: `version since coalesced`. The data of a message about a webhook is in a header.
struct PlainFormatter: AttemptFormatter {
    func request(
        for delivery: Delivery, webhook: RegisteredWebhook, at now: Timestamp
    ) throws(AttemptProblem) -> AttemptPlan {
        let text: String
        var id = "other"
        var data: OutboundHeader?
        switch delivery.content {
        case .stale(let content):
            text = "\(content.change.version) \(content.since ?? 0) \(content.coalesced)"
            id = "msg_\(content.change.sequence)"
        case .test(_, _, _, let current): text = "test \(current?.version ?? 0)"
        case .operational(let event):
            text = event.type
            data = OutboundHeader(trusted: "x-data", event.data.text())
        case .challenge(let challenge): text = challenge
        }
        let policy: AddressPolicy
        do { policy = try AddressPolicy(allow: [CIDR("127.0.0.0/8")]) } catch {
            throw AttemptProblem(.noKey, "\(error)")
        }
        return .ready(
            OutboundRequest(
                method: "POST", url: webhook.webhook.url,
                headers: [OutboundHeader(trusted: "webhook-id", id), data].compactMap(\.self),
                body: Array(text.utf8),
                limits: OutboundLimits(
                    connectTimeout: webhook.webhook.limits.timeout, timeout: webhook.webhook.limits.timeout),
                policy: policy,
                keptHeaders: ["retry-after", "location", "webhook-delivery"]), messageID: id)
    }

    func answered(status: Int, to request: OutboundRequest, webhook: Webhook) {}
}

extension OriginServer {
    /// Bodies in the order of arrival, like the versions below.
    var bodies: [String] { requests.map(\.body) }
    var versions: [Int64] { requests.compactMap(\.version) }

    /// The data of the messages about webhooks of that type.
    func news(_ type: String) throws -> [JSONValue] {
        try requests.filter { $0.body == type }.map { try JSONValue.parse(Array(($0.headers["x-data"] ?? "").utf8)) }
    }

    func versions(at target: String) -> [Int64] { requests.filter { $0.target == target }.compactMap(\.version) }
}

extension OriginServer.Request {
    /// Nil for a message that is about no version.
    var version: Int64? { body.split(separator: " ").first.flatMap { Int64($0) } }
}
