import Foundation
import StalecastOutbound
import StalecastWebhooks
import StalecastWire
import Synchronization

/// A registry in a directory of its own, with a clock the test moves.
final class RegistryFixture: Sendable {
    let directory: String
    private let time = Mutex(Timestamp(microseconds: 1_790_000_000_000_000))

    init() throws {
        directory = NSTemporaryDirectory() + "stalecast-hooks-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    var now: Timestamp { time.withLock { $0 } }

    func advance(by seconds: Int64) {
        time.withLock { $0 = Timestamp(microseconds: $0.microseconds + seconds * 1_000_000) }
    }

    func rules(allowed: [String] = ["127.0.0.0/8"], httpsOnly: Bool = false) throws -> WebhookRules {
        let news = try TopicName("news")
        return WebhookRules(
            topics: { $0 == .demo ? [.pushRC, news] : [.pushRC] }, allowed: try allowed.map { try CIDR($0) },
            filesDirectory: directory, httpsOnly: httpsOnly)
    }

    func open(
        keyFile: String? = nil, allowed: [String] = ["127.0.0.0/8"], httpsOnly: Bool = false, maxPerProject: Int = 100
    ) throws -> WebhookRegistry {
        try WebhookRegistry(
            directory: directory, keyFile: keyFile, rules: try rules(allowed: allowed, httpsOnly: httpsOnly),
            maxPerProject: maxPerProject, clock: { self.now })
    }

    func write(_ text: String, to name: String) throws -> String {
        let path = "\(directory)/\(name)"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }
}

/// Webhooks that `webhooks` gets, in order.
final class Heard: Sendable {
    private let changes = Mutex<[String]>([])

    var all: [String] { changes.withLock { $0 } }

    func hear(_ change: WebhookRegistry.Change) {
        changes.withLock { changes in
            switch change {
            case .installed(let webhook): changes.append("\(webhook.generation)")
            case .removed: changes.append("removed")
            }
        }
    }
}
