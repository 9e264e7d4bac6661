import Foundation
import StalecastClient
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// RuStore's three behaviours, and whom a client answers for.
@Suite struct UpdateBehaviourTests {
    private let server = LocalConfigServer(values: ["a": "1"])
    private let clock = TestClock()
    private let directory = scratchDirectory()

    private func app(_ transport: (any HTTPTransport)? = nil) -> StalecastApp {
        StalecastApp.test(transport ?? server, clock: clock, directory: directory)
    }

    private func client(
        _ behaviour: RemoteConfigUpdateBehaviour, _ app: StalecastApp, account: String? = nil
    ) -> RemoteConfigClient {
        RemoteConfigClient(
            app: app,
            configuration: RemoteConfigConfiguration(
                updateBehaviour: behaviour,
                requestParametersProvider: { RemoteConfigRequestParameters(account: account) }))
    }

    /// Events that a client's listeners got, in order.
    private final class Events: Sendable {
        private let all = Mutex<[String]>([])
        var list: [String] { all.withLock { $0 } }

        @discardableResult
        func listen(to client: RemoteConfigClient) -> ConfigUpdateListenerRegistration {
            client.addEventListener(
                RemoteConfigEventListener(
                    didUpdatePersistentStorage: { self.add("stored") },
                    didCompleteNetworkRequest: { error in
                        self.add((error as? RemoteConfigError).map { "failed \($0.code.rawValue)" } ?? "asked")
                    }))
        }

        private func add(_ event: String) { all.withLock { $0.append(event) } }
    }

    // MARK: Behaviours

    @Test func defaultRefreshesByTheClockAndAllEarlierObjectsSeeIt() async throws {
        let app = app()
        defer { app.delete() }
        let client = client(.default(timeInterval: 600), app)
        let first = await client.remoteConfig()
        #expect(first.string(forKey: "a") == "1", "the very first request waits for the server")
        // Only the clock can bring it: messages are lost.
        server.losesMessages = true
        server.publish(["a": "2"])
        let second = await client.remoteConfig()
        try await eventually { clock.pending == [600] }
        clock.advance(by: 599)
        #expect(first.string(forKey: "a") == "1" && second.string(forKey: "a") == "1")
        clock.advance(by: 1)
        try await eventually { first.string(forKey: "a") == "2" && second.string(forKey: "a") == "2" }
        try await eventually("and again after as long") { clock.pending == [600] }
        server.publish(["a": "3"])
        clock.advance(by: 600)
        try await eventually { first.string(forKey: "a") == "3" }
    }

    @Test func defaultHearsOfAVersionBeforeItsTime() async throws {
        let app = app()
        defer { app.delete() }
        let client = client(.default(timeInterval: 600), app)
        let view = await client.remoteConfig()
        try await eventually { server.listenerCount == 1 }
        server.publish(["a": "2"])
        try await eventually { view.string(forKey: "a") == "2" }
    }

    @Test func snapshotShowsNewValuesOnlyToANewClient() async throws {
        let app = app()
        defer { app.delete() }
        let old = client(.snapshot(timeInterval: 600), app)
        let first = await old.remoteConfig()
        server.publish(["a": "2"])
        try await eventually("it is fetched and stored all the same") { app.config["a"].stringValue == "2" }
        #expect(first.string(forKey: "a") == "1")
        #expect(await old.remoteConfig().string(forKey: "a") == "1")
        let fresh = client(.snapshot(timeInterval: 600), app)
        #expect(await fresh.remoteConfig().string(forKey: "a") == "2")
        #expect(await old.remoteConfig().string(forKey: "a") == "1")
        // Ends with the write of the cache.
        try await app.config.setCustomSignals([:])
        let reborn = self.app()
        defer { reborn.delete() }
        #expect(await client(.snapshot(timeInterval: 600), reborn).remoteConfig().string(forKey: "a") == "2")
    }

    @Test func snapshotKeepsToWhatTheCacheHeldWhenItWasMade() async throws {
        let app = app()
        defer { app.delete() }
        _ = await client(.actual, app).remoteConfig()
        let early = client(.snapshot(timeInterval: 600), app)
        server.publish(["a": "2"])
        _ = await client(.actual, app).remoteConfig()
        #expect(await early.remoteConfig().string(forKey: "a") == "1")
    }

    @Test func actualAsksEachTimeAndFallsBackToTheCache() async throws {
        let app = app()
        defer { app.delete() }
        let client = client(.actual, app)
        let events = Events()
        events.listen(to: client)
        #expect(await client.remoteConfig().string(forKey: "a") == "1")
        server.publish(["a": "2"])
        #expect(await client.remoteConfig().string(forKey: "a") == "2")
        server.outage = .status(503)
        #expect(await client.remoteConfig().string(forKey: "a") == "2")
        server.outage = nil
        server.publish(["a": "3"])
        #expect(await client.remoteConfig().string(forKey: "a") == "3", "one failure does not keep it from asking")
        server.outage = .status(503, retryAfter: 60)
        #expect(await client.remoteConfig().string(forKey: "a") == "3")
        server.outage = nil
        #expect(await client.remoteConfig().string(forKey: "a") == "3", "the server named a pause")
        #expect(server.fetchCount == 5 && server.listenerCount == 0 && clock.pending.isEmpty)
        let told = [
            "asked", "stored", "asked", "stored", "failed 8003", "asked", "stored", "failed 8002", "failed 8002",
        ]
        try await eventually { events.list == told }
        clock.advance(by: 60)
        #expect(await client.remoteConfig().string(forKey: "a") == "3")
        #expect(server.fetchCount == 6)
    }

    @Test func actualSharesNothingThatWasAskedBefore() async throws {
        let gate = AsyncGate()
        let transport = ScriptedTransport { [server] request, before in
            let answer = try await server.send(request)
            if before == 0 { await gate.pass() }
            return answer
        }
        let app = app(transport)
        defer { app.delete() }
        let client = client(.actual, app)
        async let early = client.remoteConfig()
        try await eventually { transport.received.count == 1 }
        server.publish(["a": "2"])
        async let late = client.remoteConfig()
        for _ in 1...100 { await Task.yield() }
        gate.open()
        #expect(await late.string(forKey: "a") == "2")
        _ = await early
    }

    @Test(arguments: [true, false]) func anExpiredCacheIsWaitedFor(isSnapshot: Bool) async throws {
        server.losesMessages = true
        let behaviour: RemoteConfigUpdateBehaviour = isSnapshot ? .snapshot() : .default()
        let first = app()
        _ = await client(behaviour, first).remoteConfig()
        try await first.config.setCustomSignals([:])
        first.delete()
        server.publish(["a": "2"])
        clock.advance(by: RemoteConfigConfiguration.defaultTimeInterval - 1)
        let fresh = app()
        #expect(await client(behaviour, fresh).remoteConfig().string(forKey: "a") == "1")
        #expect(server.fetchCount == 1, "a cache that is young enough is not asked about")
        fresh.delete()
        clock.advance(by: 1)
        let late = app()
        defer { late.delete() }
        let client = client(behaviour, late)
        #expect(await client.remoteConfig().string(forKey: "a") == "2")
        #expect(await client.remoteConfig().string(forKey: "a") == "2" && server.fetchCount == 2)
    }

    @Test func anotherServerIsAnotherClient() async {
        let (one, other) = (LocalConfigServer(values: ["a": "one"]), LocalConfigServer(values: ["a": "other"]))
        let appID = "places-\(UUID().uuidString)"
        let clients = [(one, "http://127.0.0.1:1"), (other, "http://127.0.0.1:2")].map { server, endpoint in
            var options = StalecastOptions.local(server)
            options.endpoint = URL(string: endpoint)!
            return RemoteConfigClient(
                appID: appID, configuration: RemoteConfigConfiguration(updateBehaviour: .actual), options: options)
        }
        #expect(await clients[0].remoteConfig().string(forKey: "a") == "one")
        #expect(await clients[1].remoteConfig().string(forKey: "a") == "other")
    }

    @Test func accountsThatAreGoneLeaveNothingBehind() async throws {
        let app = app(mirror)
        defer { app.delete() }
        for number in 1...20 { _ = await client(.actual, app, account: "account\(number)").remoteConfig() }
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(files.count { $0.contains("account") } <= 16)
        #expect(app.keptScopes <= 2)
    }

    @Test func actualWithoutCacheAndServerHasNoValues() async throws {
        server.outage = .unreachable
        let app = app()
        defer { app.delete() }
        let view = await client(.actual, app).remoteConfig()
        #expect(view.keys.isEmpty && view.string(forKey: "a") == nil)
    }

    // MARK: Events

    @Test func listenersHearOfRequestsAndOfNewValues() async throws {
        let app = app()
        defer { app.delete() }
        let (first, second) = (client(.actual, app), client(.actual, app))
        let (events, others, ended) = (Events(), Events(), Events())
        events.listen(to: first)
        others.listen(to: second)
        ended.listen(to: first).remove()
        _ = await second.remoteConfig()
        _ = await first.remoteConfig()
        try await eventually("nothing new was stored since it began") { events.list == ["asked"] }
        server.publish(["a": "2"])
        _ = await second.remoteConfig()
        try await eventually("both share the storage") { events.list == ["asked", "asked", "stored"] }
        try await eventually { others.list == ["asked", "stored", "asked", "asked", "stored"] }
        #expect(ended.list.isEmpty)
    }

    @Test func theStorageIsWrittenWhenTheListenerHearsOfIt() async throws {
        let app = app()
        defer { app.delete() }
        let client = client(.actual, app)
        let stored = Mutex<String?>(nil)
        client.addEventListener(
            RemoteConfigEventListener(didUpdatePersistentStorage: {
                let reborn = self.app().config["a"].stringValue
                stored.withLock { $0 = reborn }
            }))
        _ = await client.remoteConfig()
        try await eventually { stored.withLock { $0 } == "1" }
    }

    @Test func aClientThatIsGoneStopsRefreshingAndListening() async throws {
        let app = app()
        defer { app.delete() }
        var client: RemoteConfigClient? = client(.default(timeInterval: 600), app)
        _ = await client?.remoteConfig()
        try await eventually { server.listenerCount == 1 && clock.pending == [600] }
        client = nil
        try await eventually { server.listenerCount == 0 && clock.pending.isEmpty }
    }

    // MARK: Accounts

    /// Answers each request with the account that it names.
    private let mirror = ScriptedTransport { request, before in
        let signals = try JSONValue.parse(request.body ?? Data())["customSignals"]
        let account = signals?["account"]?.string ?? "nobody"
        return .json(
            #"{"entries":{"account":"\#(account)"},"state":"UPDATE","templateVersion":"1"}"#, etag: "e-\(account)")
    }

    @Test func accountsNeverSeeEachOthersValues() async throws {
        let app = app(mirror)
        defer { app.delete() }
        let names = ["ann", "bob", nil]
        let clients = names.map { client(.default(timeInterval: 600), app, account: $0) }
        for _ in 1...20 {
            let seen = await withTaskGroup(of: (Int, String?).self) { group in
                for (index, client) in clients.enumerated() {
                    group.addTask { (index, await client.remoteConfig().string(forKey: "account")) }
                }
                return await group.reduce(into: [Int: String?]()) { $0[$1.0] = $1.1 }
            }
            #expect(seen == [0: "ann", 1: "bob", 2: "nobody"])
            clock.advance(by: 600)
        }
        let reborn = self.app(ScriptedTransport { _, _ in throw URLError(.notConnectedToInternet) })
        defer { reborn.delete() }
        for (name, expected) in [("ann", "ann"), ("bob", "bob"), ("eve", nil)] as [(String, String?)] {
            let view = await client(.actual, reborn, account: name).remoteConfig()
            #expect(view.string(forKey: "account") == expected, "the cache is \(name)'s own")
        }
    }

    @Test func anAccountThatChangesIsAnsweredForAtOnce() async throws {
        let app = app(mirror)
        defer { app.delete() }
        let account = Mutex("ann")
        let client = RemoteConfigClient(
            app: app,
            configuration: RemoteConfigConfiguration(
                updateBehaviour: .default(timeInterval: 600),
                requestParametersProvider: { RemoteConfigRequestParameters(account: account.withLock { $0 }) }))
        let early = await client.remoteConfig()
        account.withLock { $0 = "bob" }
        #expect(await client.remoteConfig().string(forKey: "account") == "bob")
        #expect(early.string(forKey: "account") == "ann")
        try await eventually { !clock.pending.isEmpty }
        let asked = mirror.received.count
        clock.advance(by: 600)
        try await eventually { mirror.received.count > asked }
        let last = try JSONValue.parse(mirror.received.last?.body ?? Data())
        #expect(last["customSignals"]?["account"] == "bob", "no request names the former account any more")
    }

    @Test func longAccountsAreToldApart() async throws {
        let app = app(mirror)
        defer { app.delete() }
        let long = String(repeating: "x", count: 400)
        for name in [long + "1", long + "2", "a/b", "../b", "A", "a"] {
            #expect(await client(.actual, app, account: name).remoteConfig().string(forKey: "account") == name)
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(files.allSatisfy { $0.utf8.count < 200 } && files.count >= 6)
    }

    @Test func aCacheOfAnotherAccountIsNotUsed() async throws {
        let first = app(mirror)
        _ = await client(.actual, first, account: "ann").remoteConfig()
        first.delete()
        // As on a file system to which both names are one.
        let file = { (name: String) in directory.appendingPathComponent("test@firebase@\(name)") }
        try FileManager.default.moveItem(at: file("ann"), to: file("bob"))
        let second = app(ScriptedTransport { _, _ in throw URLError(.notConnectedToInternet) })
        defer { second.delete() }
        #expect(await client(.actual, second, account: "bob").remoteConfig().keys.isEmpty)
    }

    @Test func environmentAndAccountTravelAsSignals() async throws {
        let app = app()
        defer { app.delete() }
        let client = RemoteConfigClient(
            app: app,
            configuration: RemoteConfigConfiguration(
                environment: .beta, updateBehaviour: .actual,
                requestParametersProvider: { RemoteConfigRequestParameters(account: "ann", signals: ["plan": "pro"]) }))
        _ = await client.remoteConfig()
        let body = try JSONValue.parse(try #require(server.lastRequest?.body))
        #expect(body["customSignals"] == ["account": "ann", "environment": "beta", "plan": "pro"])
    }

    @Test func anAccountThatComesBackHearsOfWhatWasPublishedMeanwhile() async throws {
        let app = app()
        defer { app.delete() }
        let account = Mutex("bob")
        let client = RemoteConfigClient(
            app: app,
            configuration: RemoteConfigConfiguration(
                requestParametersProvider: { RemoteConfigRequestParameters(account: account.withLock { $0 }) }))
        _ = await client.remoteConfig()
        account.withLock { $0 = "ann" }
        let ann = await client.remoteConfig()
        try await eventually { server.listenerCount == 1 }
        server.publish(["a": "2"])
        try await eventually { ann.string(forKey: "a") == "2" }
        // The connection is kept and says nothing again.
        server.losesMessages = true
        account.withLock { $0 = "bob" }
        let bob = await client.remoteConfig()
        try await eventually {
            if clock.pending.contains(where: { $0 <= 2 }) { clock.advance(by: 1) }
            return bob.string(forKey: "a") == "2"
        }
    }

    @Test func anEventListenerMayRemoveAnotherWhenItIsRemoved() async throws {
        let app = app()
        defer { app.delete() }
        let client = client(.actual, app)
        let ended = Mutex(0)
        let registration: ConfigUpdateListenerRegistration
        do {
            let model = Model { ended.withLock { $0 += 1 } }
            model.registration = client.addEventListener(RemoteConfigEventListener())
            registration = client.addEventListener(
                RemoteConfigEventListener(didUpdatePersistentStorage: { model.changed() }))
        }
        registration.remove()
        #expect(ended.withLock { $0 } == 1)
    }
}
