import Foundation
import StalecastClient
import StalecastTestSupport
import StalecastWire
import Testing

/// The server's states, and what the client makes of each.
@Suite struct FetchStateTests {
    private static let update = #"{"entries":{"a":"1","n":"10"},"state":"UPDATE","templateVersion":"6"}"#

    /// A configuration that got ``update``, activated it, and then gets `second`.
    private func config(then second: TransportResponse) async throws -> (RemoteConfig, ScriptedTransport) {
        let server = ScriptedTransport { _, before in before == 0 ? .json(Self.update) : second }
        let config = StalecastApp.test(server).config
        try await config.fetchAndActivate()
        return (config, server)
    }

    @Test func anUpdateIsActivatedOnce() async throws {
        let (config, _) = try await config(then: .json(Self.update))
        #expect(config["a"].stringValue == "1")
        #expect(config["a"].source == .remote)
        #expect(config.activeVersion == 6)
        #expect(try await config.activate() == false)
    }

    @Test func noChangeKeepsTheContentAndTakesTheVersion() async throws {
        let (config, server) = try await config(then: .json(#"{"state":"NO_CHANGE","templateVersion":"9"}"#))
        try await config.fetch(withExpirationDuration: 0)
        #expect(config.fetchedVersion == 9)
        #expect(try await config.activate() == false)
        #expect(config["n"].numberValue == 10)
        #expect(server.received.last?.headers["If-None-Match"] == "etag-1-firebase-fetch-1")
        #expect(server.received.first?.headers["If-None-Match"] == nil)
    }

    @Test func notModifiedIsTakenForNoChange() async throws {
        let (config, _) = try await config(then: TransportResponse(status: 304))
        #expect(try await config.fetch(withExpirationDuration: 0) == .success)
        #expect(config.fetchedVersion == 6)
    }

    @Test(arguments: ["NO_TEMPLATE", "EMPTY_CONFIG"]) func withoutValuesTheDefaultsCount(state: String) async throws {
        let body = #"{"state":"\#(state)","templateVersion":"7"}"#
        let (config, _) = try await config(then: .json(body, etag: "etag-2"))
        config.setDefaults(["a": "default"])
        try await config.fetch(withExpirationDuration: 0)
        #expect(config["a"].stringValue == "1", "not before activation")
        #expect(try await config.activate())
        #expect(config["a"].stringValue == "default")
        #expect(config["a"].source == .default)
        #expect(config.allKeys(from: .remote).isEmpty)
    }

    @Test(arguments: [
        TransportResponse.json(#"{"state":"INSTANCE_STATE_UNSPECIFIED"}"#),
        .json(#"{"error":{"code":403,"message":"API disabled","status":"PERMISSION_DENIED"}}"#),
        .json("<html>Please log in to this Wi-Fi</html>"), .json("[]"), .json(""), .json("{}"),
        .json(#"{"state":"UPDATE","entries":7}"#), .json(#"{"state":"UPDATE","entries":null}"#),
        .json(#"{"error":{"code":418,"message":"boom"}}"#, status: 418),
    ])
    func whatIsNoAnswerFailsAndChangesNothing(answer: TransportResponse) async throws {
        let (config, _) = try await config(then: answer)
        let error = await #expect(throws: RemoteConfigError.self) {
            try await config.fetch(withExpirationDuration: 0)
        }
        #expect(error?.code == .internalError)
        #expect(error?.message.isEmpty == false)
        #expect(config.lastFetchStatus == .failure)
        #expect(config.fetchedVersion == 6)
        #expect(config["a"].stringValue == "1")
    }

    @Test func aFailedFetchAndActivateChangesNothing() async throws {
        let server = ScriptedTransport { _, before in
            before == 0 ? .json(Self.update) : TransportResponse(status: 500)
        }
        let config = StalecastApp.test(server).config
        try await config.fetch()
        let settings = RemoteConfigSettings()
        settings.minimumFetchInterval = 0
        config.configSettings = settings
        await #expect(throws: RemoteConfigError.self) { try await config.fetchAndActivate() }
        #expect(config["a"].source == .static, "what was fetched for the next start does not come into force now")
        #expect(try await config.activate())
    }

    @Test func oneExchangeServesAllWhoAsk() async throws {
        let gate = AsyncGate()
        let server = ScriptedTransport { _, _ in
            await gate.pass()
            return .json(Self.update)
        }
        let config = StalecastApp.test(server).config
        async let first = config.fetch()
        try await eventually { server.received.count == 1 }
        async let second = config.fetch(withExpirationDuration: 0)
        async let third = config.fetch()
        for _ in 1...100 { await Task.yield() }
        gate.open()
        #expect(try await [first, second, third] == [.success, .success, .success])
        #expect(server.received.count == 1)
    }

    /// A server that holds its first answer back, a configuration that asks it, and what that gets in the end.
    private func whileTheFirstAnswerIsAwaited(
        _ event: (StalecastApp) async throws -> Void
    ) async throws -> (StalecastApp, ScriptedTransport, Task<Void, any Error>, AsyncGate) {
        let gate = AsyncGate()
        let server = ScriptedTransport { _, before in
            if before == 0 { await gate.pass() }
            return .json(Self.update)
        }
        let app = StalecastApp.test(server)
        let config = app.config
        let first = Task { _ = try await config.fetch() }
        try await eventually { server.received.count == 1 }
        try await event(app)
        return (app, server, first, gate)
    }

    @Test func aMessageDuringAFetchIsNotAnsweredByIt() async throws {
        let (app, server, first, gate) = try await whileTheFirstAnswerIsAwaited { app in
            // As a Cloud Function or a person sends it: without a version.
            app.received(.stale(StaleNotice(version: 0)))
        }
        gate.open()
        try await first.value
        #expect(app.config.isStale, "the answer may be older than the message")
        try await app.config.fetch()
        #expect(server.received.count == 2 && !app.config.isStale)
    }

    @Test func signalsSetDuringAFetchAreSentWithAnother() async throws {
        let (app, server, first, gate) = try await whileTheFirstAnswerIsAwaited { app in
            try await app.config.setCustomSignals(["plan": "pro"])
        }
        let config = app.config
        let second = Task { _ = try await config.fetch() }
        for _ in 1...100 { await Task.yield() }
        gate.open()
        try await first.value
        try await second.value
        #expect(server.received.count == 2)
        let body = try JSONValue.parse(try #require(server.received.last?.body))
        #expect(body["customSignals"] == ["plan": "pro"])
    }

    @Test func anAnswerToFormerSignalsIsNotFresh() async throws {
        let (app, server, first, gate) = try await whileTheFirstAnswerIsAwaited { app in
            try await app.config.setCustomSignals(["plan": "pro"])
        }
        gate.open()
        try await first.value
        try await app.config.fetch()
        #expect(server.received.count == 2)
        try await app.config.fetch()
        #expect(server.received.count == 2)
    }

    @Test func whatConditionsCompareCanBeSaid() async throws {
        let server = ScriptedTransport { _, _ in .json(Self.update) }
        let app = StalecastApp.test(server) { options in
            options.appVersion = "2.10.0"
            options.appBuild = "77"
            options.country = "NO"
            options.language = "nn-NO"
        }
        try await app.config.fetch()
        let body = try JSONValue.parse(try #require(server.received.first?.body))
        #expect(body["appVersion"] == "2.10.0" && body["appBuild"] == "77")
        #expect(body["countryCode"] == "NO" && body["languageCode"] == "nn-NO")
    }

    @Test func theRequestHasFirebasesShape() async throws {
        let server = ScriptedTransport { _, _ in .json(Self.update) }
        let app = StalecastApp.test(server) { options in
            options.endpoint = URL(string: "https://config.example.com/base")!
            options.project = "shop"
            options.apiKey = "key-1"
            options.appID = "1:123456789012:ios:0a1b2c"
            options.headers = ["Authorization": "Bearer t"]
        }
        app.setUserProperty("pro", forName: "plan")
        try await app.config.setCustomSignals(["city": "york", "age": 41, "ratio": 0.5])
        try await app.config.fetch()
        let request = try #require(server.received.first)
        #expect(request.method == "POST")
        #expect(
            request.url.absoluteString == "https://config.example.com/base/v1/projects/shop/namespaces/firebase:fetch")
        // What is left of the fetch's minute.
        #expect((30...60).contains(request.timeout))
        #expect(request.headers["X-Firebase-RC-Fetch-Type"] == "BASE/1")
        #expect(request.headers["X-Goog-Api-Key"] == "key-1")
        #expect(request.headers["Authorization"] == "Bearer t")
        #expect(request.headers["Content-Type"] == "application/json")
        let body = try JSONValue.parse(try #require(request.body))
        #expect(body["appId"] == "1:123456789012:ios:0a1b2c")
        #expect(body["appInstanceId"]?.string == app.appInstanceID)
        #expect(body["appInstanceIdToken"]?.string?.isEmpty == false)
        #expect(body["customSignals"] == ["age": "41", "city": "york", "ratio": "0.5"])
        #expect(body["analyticsUserProperties"] == ["plan": "pro"])
        #expect(body["languageCode"]?.string?.isEmpty == false)
        #expect(body["timeZone"]?.string?.isEmpty == false)
        #expect(body["sdkVersion"]?.string?.isEmpty == false)
        let firstOpen = try #require(Timestamp(body["firstOpenTime"]?.string ?? ""))
        #expect(Double(firstOpen.microseconds) / 1e6 == app.firstOpenTime.timeIntervalSince1970)
    }

    @Test func updateAndErrorReachCompletionHandlers() async throws {
        let (config, _) = try await config(then: TransportResponse(status: 404))
        let fetched = await withCheckedContinuation { done in
            config.fetch { status, error in done.resume(returning: (status, error as? RemoteConfigError)) }
        }
        #expect(fetched.0 == .success && fetched.1 == nil, "what was fetched is fresh enough")
        let failed = await withCheckedContinuation { done in
            config.fetch(withExpirationDuration: 0) { status, error in
                done.resume(returning: (status, error as? RemoteConfigError))
            }
        }
        #expect(failed.0 == .failure)
        #expect(failed.1?.httpStatus == 404)
        let activated = await withCheckedContinuation { done in
            config.activate { changed, error in done.resume(returning: (changed, error == nil)) }
        }
        #expect(activated == (false, true))
        let both = await withCheckedContinuation { done in
            config.fetchAndActivate { status, error in done.resume(returning: (status, error == nil)) }
        }
        #expect(both == (.successFetchedFromRemote, true))
    }
}

/// Blocks its callers until it is opened.
final class AsyncGate: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func pass() async { for await _ in stream {} }

    func open() { continuation.finish() }
}
