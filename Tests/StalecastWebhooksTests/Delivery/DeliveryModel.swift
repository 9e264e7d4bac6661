import Foundation
import StalecastHub
import StalecastOutbound
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire

/// ``DeliveryState`` with everything around it made of lists: store, database, receivers, both clocks. Takes random steps
/// and looks after each whether something is so that must not be.
struct DeliveryModel {
    static let projects = [Namespace.firebase, .firebaseServer]
    static let scopes = projects.map { Scope(project: .demo, namespace: $0) }
    static let beta = (try? TopicName("beta"))!
    static let server = (try? TopicName("server"))!
    static let modes: [DeliveryMode] = [
        .latest, .latest, .all, .fifo(onExhaustion: .block), .fifo(onExhaustion: .advance),
    ]

    /// One webhook in one scope, as seen from outside.
    struct Track {
        /// Versions up to here are not owed one by one.
        var base: CommitSequence = 0
        /// The highest of the versions sent since their order began anew, and of all sent.
        var last: CommitSequence = 0
        var highest: CommitSequence = 0
        var acknowledged: Set<CommitSequence> = []
        var extras: Set<CommitSequence> = []
        /// Published before anything is owed.
        var begun: CommitSequence = 0
    }

    struct Key: Hashable {
        let webhook: WebhookID
        let scope: Scope
    }

    struct Letter: Hashable {
        let key: Key
        let version: VersionNumber
        let receiver: String
        let epoch: Int
    }

    var random: SeededRandom
    var state: DeliveryState
    var now = Moment(monotonic: 1_000_000_000_000, wall: Timestamp(microseconds: 1_800_000_000_000_000))
    /// Nanoseconds in which a daemon ran.
    var running: UInt64 = 0
    var store: [Scope: [TemplateChange]] = [:]
    var sequence: CommitSequence = 0
    var epoch = 0
    var webhooks: [Webhook] = []
    var routes: [TopicBinding] = []
    /// Entries that are durable, and those that are not yet, in the groups that are written together.
    var image = DeliveryImage()
    var pending: [[JournalEntry]] = []
    var letters: [Letter: CommitSequence] = [:]
    var pendingLetters: [Letter] = []
    /// Letters that were asked for once more.
    var repeatable: Set<Letter> = []
    var attempts: [DeliveryState.Attempt] = []
    var cancelled: Set<UInt64> = []
    var reads: [(id: UInt64, scope: Scope, after: CommitSequence)] = []
    var tracks: [Key: Track] = [:]
    var patience: [WebhookID: UInt64] = [:]
    /// Times when webhooks began to fail, by ``running``.
    var failing: [WebhookID: UInt64] = [:]
    var urls = 0
    var problems: [String] = []
    var steps: [String] = []
    var isEnding = false

    static let configuration = {
        var configuration = DeliveryConfiguration(path: "", maxInFlight: 6)
        configuration.pace.startSpread = .zero
        return configuration
    }()

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        state = DeliveryState(Self.configuration, routes: [], random: SeededRandom(seed: seed &+ 1))
        routes = Self.routes(withBeta: true)
        state = DeliveryState(Self.configuration, routes: routes, random: SeededRandom(seed: seed &+ 2))
        state.begin([], [], image, opened: now.wall, at: now)
        for _ in 0..<3 { add() }
    }

    static func routes(withBeta: Bool) -> [TopicBinding] {
        let all = TopicBinding(name: .pushRC, scopes: scopes)
        let server = TopicBinding(name: server, scopes: [scopes[1]])
        let beta = TopicBinding(name: beta, scopes: [scopes[0]], keys: [try! KeyPattern("beta")])
        return withBeta ? [all, server, beta] : [all, server]
    }

    mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    mutating func pick<Element>(_ items: [Element]) -> Element? { items.randomElement(using: &random) }

    func hears(_ webhook: Webhook, _ change: TemplateChange) -> Bool {
        routes.contains { webhook.topics.contains($0.name) && $0.scopes.contains(change.scope) && $0.hears(change) }
    }

    func covers(_ webhook: Webhook, _ scope: Scope) -> Bool {
        routes.contains { webhook.topics.contains($0.name) && $0.scopes.contains(scope) }
    }

    func receiver(_ webhook: Webhook) -> String { webhook.receiverDigest }

    // MARK: Webhooks

    mutating func topics() -> [TopicName] {
        pick([[.pushRC], [.pushRC], [Self.beta], [Self.server], [Self.beta, Self.server], [.pushRC, Self.beta]]) ?? []
    }

    mutating func url() -> OutboundURL {
        urls += 1
        return (try? OutboundURL("http://receiver.example/\(urls)"))!
    }

    mutating func add() {
        let webhook = Webhook(
            id: .random(using: &random), project: .demo, url: url(), topics: topics(),
            mode: pick(Self.modes) ?? .latest,
            createdAt: now.wall)
        note("add \(webhooks.count) \(webhook.mode.name) \(webhook.topics)")
        webhooks.append(webhook)
        state.installed(webhook, at: now.monotonic)
        begin(webhook)
    }

    /// Lanes that are new begin now.
    mutating func begin(_ webhook: Webhook) {
        for scope in Self.scopes where covers(webhook, scope) {
            let key = Key(webhook: webhook.id, scope: scope)
            guard tracks[key] == nil else { continue }
            let head = store[scope]?.last?.sequence ?? 0
            tracks[key] = Track(base: head, begun: head)
        }
    }

    mutating func edit(_ index: Int, _ change: (inout Webhook) -> Void) {
        let before = webhooks[index]
        change(&webhooks[index])
        let webhook = webhooks[index]
        state.installed(webhook, at: now.monotonic)
        let isMoved = receiver(before) != receiver(webhook)
        if isMoved {
            patience[webhook.id] = nil
            failing[webhook.id] = nil
        }
        if isMoved || before.mode != webhook.mode || before.topics != webhook.topics {
            renew(webhook, from: before.mode, isHearing: before.topics != webhook.topics)
        }
        begin(webhook)
    }

    /// Other terms: the order of what is sent begins anew.
    mutating func renew(_ webhook: Webhook, from former: DeliveryMode, isHearing: Bool) {
        for scope in Self.scopes {
            let key = Key(webhook: webhook.id, scope: scope)
            guard tracks[key] != nil else { continue }
            tracks[key]!.last = 0
            if former == .latest || webhook.mode == .latest {
                tracks[key]!.base = max(tracks[key]!.base, tracks[key]!.highest)
            }
            if webhook.mode == .latest {
                tracks[key]!.base = max(tracks[key]!.base, tracks[key]!.acknowledged.max() ?? 0)
            }
            // What did not concern it was passed over.
            if isHearing { tracks[key]!.base = store[scope]?.last?.sequence ?? 0 }
        }
    }

    mutating func note(_ text: String) {
        if !isEnding { steps.append("\(now.monotonic / 1_000_000) \(text)") }
    }

    mutating func problem(_ text: String) {
        problems.append(text)
        steps.append("PROBLEM \(text)")
    }
}

extension Webhook {
    init(
        id: WebhookID, project: ProjectID, url: OutboundURL, topics: [TopicName] = [.pushRC],
        mode: DeliveryMode = .latest, limits: WebhookLimits = WebhookLimits(), createdAt: Timestamp
    ) {
        var settings = WebhookSettings()
        (settings.topics, settings.mode, settings.limits) = (topics, mode, limits)
        self.init(id: id, project: project, url: url, settings: settings, createdAt: createdAt)
    }
}
