import Foundation
import Logging
import NIOPosix
import ServiceLifecycle
import StalecastControl
import StalecastStore
import StalecastWire
import Synchronization
import Testing

/// A running private listener on a free port, with a store in a temporary directory.
struct ControlFixture: Sendable {
    static let secret = "a-token-for-tests"
    static let prefix = "/v1/projects/demo/remoteConfig"

    let port: Int
    let store: TemplateStore
    let sent: SentMessages
    let stop: @Sendable () async -> Void

    /// What `messages:send` handed on.
    final class SentMessages: Sendable {
        private let messages = Mutex<[SentMessage]>([])
        var all: [SentMessage] { messages.withLock { $0 } }
        func append(_ message: SentMessage) { messages.withLock { $0.append(message) } }
    }

    /// Serves for as long as `body` runs, then stops gracefully.
    static func serving<Value: Sendable>(
        _ adjust: (inout ControlConfiguration) -> Void = { _ in },
        storing: (inout StoreConfiguration) -> Void = { _ in },
        readiness: @escaping @Sendable () -> [String] = { [] },
        webhooks: (@Sendable (ProjectID, WebhookCommand) throws(WebhookRefusal) -> JSONValue)? = nil,
        _ body: (ControlFixture) async throws -> Value
    ) async throws -> Value {
        let directory = FileManager.default.temporaryDirectory.appending(path: "stalecast-control-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }  // a leftover does no harm
        var storeConfiguration = StoreConfiguration(directory: directory.path)
        storing(&storeConfiguration)
        let store = try TemplateStore.open(storeConfiguration)
        defer { store.close() }
        let sent = SentMessages()
        var configuration = ControlConfiguration()
        adjust(&configuration)
        let (ports, bound) = AsyncStream.makeStream(of: Int.self)
        var dependencies = try dependencies(store, sent, readiness)
        if let webhooks {
            dependencies.webhooks = { project, command async throws(WebhookRefusal) in try webhooks(project, command) }
        }
        let server = ControlServer(
            dependencies, configuration: configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: quiet
        ) { _, port in bound.yield(port) }
        let group = ServiceGroup(services: [server], logger: quiet)
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { bound.finish() }
                try await group.run()
            }
            guard let port = await ports.first(where: { _ in true }) else { throw NotBound() }
            let fixture = ControlFixture(port: port, store: store, sent: sent) { await group.triggerGracefulShutdown() }
            let result = await Result { try await body(fixture) }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return try result.get()
        }
    }

    private struct NotBound: Error {}

    private static let quiet = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    private static func dependencies(
        _ store: TemplateStore, _ sent: SentMessages, _ readiness: @escaping @Sendable () -> [String]
    ) throws -> ControlDependencies {
        let scope = Scope(project: .demo, namespace: .firebase)
        let topics = [
            TopicSummary(name: .pushRC, scopes: [scope]),
            TopicSummary(name: try TopicName("payments"), scopes: [scope], keys: [try KeyPattern("pay_*")]),
        ]
        return ControlDependencies(
            store: store, token: ControlToken(secret: secret), topics: { topics },
            presence: { [.pushRC: ["sse": 3]] }, send: { sent.append($0) },
            metrics: { "# TYPE up gauge\nup 1\n" }, status: { ["state": "serving"] }, readiness: { readiness() })
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
