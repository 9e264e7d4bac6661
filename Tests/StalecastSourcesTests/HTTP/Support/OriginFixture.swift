import StalecastTestServers
import StalecastOutbound
import StalecastSources
import StalecastTemplate
import StalecastWire
import Synchronization
import Testing

/// An engine, and ways to reach a test's server with it.
struct OriginFixture {
    let engine: OutboundEngine

    static func with<Value>(_ body: (OriginFixture) async throws -> Value) async throws -> Value {
        let engine = try OutboundEngine()
        let result: Result<Value, any Error>
        do { result = .success(try await body(OriginFixture(engine: engine))) } catch { result = .failure(error) }
        await engine.shutdown(grace: .zero)
        return try result.get()
    }

    func access(
        _ credential: OriginAccess.Credential = .none, allow: [String] = ["127.0.0.0/8"], maxBodyBytes: Int = 1 << 20,
        timeout: Duration = .seconds(60)
    ) throws -> OriginAccess {
        var access = OriginAccess(
            engine: engine, policy: AddressPolicy(allow: try allow.map { try CIDR($0) }), timeout: timeout,
            maxBodyBytes: maxBodyBytes, credential: credential)
        // On a busy machine even loopback takes seconds.
        access.limits.connectTimeout = timeout
        return access
    }

    func source(
        _ server: OriginServer, _ access: OriginAccess? = nil, _ reading: ContentReading = ContentReading()
    ) throws -> HTTPSource {
        HTTPSource(
            url: try OutboundURL(server.url + "/config.json"), access: try access ?? self.access(), reading: reading,
            kind: .client)
    }

    /// A template with one parameter.
    static func template(_ value: String, more: String = "") -> String {
        #"{"parameters":{"greeting":{"defaultValue":{"value":"\#(value)"}}}\#(more)}"#
    }
}

/// Answers in order; the last one for ever.
final class Script: Sendable {
    private let replies: Mutex<[OriginServer.Reply]>

    init(_ replies: [OriginServer.Reply]) { self.replies = Mutex(replies) }

    func next() -> OriginServer.Reply {
        replies.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
    }
}

extension TemplateSource {
    /// Polls, and expects that value of `greeting`. If another one comes, or a problem, the test shows it.
    func shows(_ greeting: String, sourceLocation: SourceLocation = #_sourceLocation) async {
        let poll = await poll()
        #expect(poll.greeting == greeting, "\(poll)", sourceLocation: sourceLocation)
    }
}

extension OriginPoll {
    /// The value of `greeting` in what was seen.
    var greeting: String? {
        guard case .seen(let sight) = self else { return nil }
        guard case .value(let text)? = sight.content.template.parameters["greeting"]?.defaultValue else { return nil }
        return text
    }

    var problem: OriginProblem? {
        guard case .failed(let problem) = self else { return nil }
        return problem
    }
}
