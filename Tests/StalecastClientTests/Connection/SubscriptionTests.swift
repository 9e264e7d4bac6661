import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Synchronization
import Testing

/// Tests what an app's subscriptions say to a server, and what becomes of topics that it does not have.
@Suite struct SubscriptionTests {
    private let values = LocalConfigServer(values: ["a": "1"])
    private let directory = scratchDirectory()
    private let problems = Problems()

    private final class Problems: Sendable {
        private let all = Mutex<[StalecastProblem]>([])
        var list: [StalecastProblem] { all.withLock { $0 } }
        func add(_ problem: StalecastProblem) { all.withLock { $0.append(problem) } }
    }

    /// An app whose fetches are answered in the process, and whose connection goes to `server`.
    private func app(_ server: StreamServer, topics: [String] = ["PUSH_RC"]) -> StalecastApp {
        let transport = ScriptedTransport { [values] request, _ in try await values.send(request) }
        return StalecastApp.test(transport, directory: directory) { options in
            options.endpoint = server.url
            options.project = "shop"
            options.topics = topics
            options.connection.reconnectDelay = 0.02
            options.connection.longestReconnectDelay = 0.1
            options.onProblem = problems.add
        }
    }

    private func message(_ version: Int, cursor: String) -> String {
        staleEvent(version, cursor: cursor).replacingOccurrences(of: "\"demo\"", with: "\"shop\"")
    }

    @Test func theScopeIsAlwaysSaid() async throws {
        try await StreamServer.serving { server in
            let app = app(server)
            defer { app.delete() }
            app.config.addOnConfigUpdateListener { _, _ in }
            try await eventually { server.peers.count == 1 }
            #expect(server.peers.map(\.path) == ["/v1/events?topic=PUSH_RC&project=shop&namespace=firebase&have=0"])
            RemoteConfig.remoteConfig(app: app, namespace: "other").addOnConfigUpdateListener { _, _ in }
            try await eventually { server.peers.count == 2 }
            let second = try server.peers[required: 1]
            #expect(second.path == "/v1/events?topic=PUSH_RC&project=shop&have=0", "both namespaces")
        }
    }

    @Test func aCursorCountsForTheTopicsItWasMadeWith() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(syncedEvent("e.7"))
        } _: { server in
            for (topics, cursor) in [(["exp"], nil), (["exp"], "e.7"), (["exp", "PUSH_RC"], nil)]
                as [([String], String?)]
            {
                let before = server.peers.count
                let app = app(server, topics: topics)
                try await app.config.fetchAndActivate()
                app.config.addOnConfigUpdateListener { _, _ in }
                try await eventually { server.peers.count > before }
                #expect(try server.peers[required: before].headers["last-event-id"] == cursor)
                #expect(try server.peers[required: before].path.hasSuffix("have=1"))
                try await eventually { app.config.storedCursor == "e.7" }
                try await app.config.setCustomSignals([:])
                app.delete()
            }
        }
    }

    @Test func aCursorIsKeptForTheNamespacesOfItsConnection() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(syncedEvent("e.7") + message(2, cursor: "e.8"))
        } _: { server in
            let app = app(server)
            defer { app.delete() }
            let other = RemoteConfig.remoteConfig(app: app, namespace: "two")
            try await other.fetchAndActivate()
            app.config.addOnConfigUpdateListener { _, _ in }
            try await eventually { app.config.storedCursor == "e.8" }
            #expect(other.storedCursor == nil, "nothing was said of its versions")
        }
    }

    @Test func whatWasHeardIsNotToldAgainAfterARestart() async throws {
        try await StreamServer.serving { server in
            var app = app(server)
            try await app.config.fetchAndActivate()
            app.config.addOnConfigUpdateListener { _, _ in }
            try await eventually { server.peers.count == 1 }
            values.publish(["a": "2"])
            try server.peers[required: 0].openStream(syncedEvent("e.1") + message(2, cursor: "e.2"))
            try await eventually { app.config.fetchedVersion == 2 && app.config.storedCursor == "e.2" }
            try await app.config.setCustomSignals([:])
            app.delete()
            app = self.app(server)
            defer { app.delete() }
            app.config.addOnConfigUpdateListener { _, _ in }
            try await eventually { server.peers.count == 2 }
            #expect(try server.peers[required: 1].headers["last-event-id"] == "e.2")
        }
    }

    @Test func aConnectionMadeInTheBackgroundWaitsForTheForeground() async throws {
        try await StreamServer.serving { server in
            let app = app(server)
            defer { app.delete() }
            app.enterBackground()
            app.config.addOnConfigUpdateListener { _, _ in }
            // A stream that is wanted by now would come before the last of these requests.
            let url = server.url.appendingPathComponent("probe")
            for count in 1...4 {
                let probe = Task { try await NetworkTransport.shared.send(TransportRequest(method: "GET", url: url)) }
                try await eventually { server.peers.count >= count }
                probe.cancel()
            }
            #expect(server.peers.map(\.path) == Array(repeating: "/probe", count: 4))
            app.enterForeground()
            try await eventually { server.peers.last?.path.hasPrefix("/v1/events") == true }
        }
    }

    @Test func anUnknownTopicIsToldAndTheOthersAreHeard() async throws {
        try await StreamServer.serving { peer, _ in
            guard peer.path.contains("NEWS") else { return }
            peer.openStream(
                "event: unknown-topics\ndata: {\"topics\":[\"NEWS\"]}\n\n" + syncedEvent("e.1")
                    + message(2, cursor: "e.2"))
        } _: { server in
            try await check(server)
        }
    }

    /// A daemon that does not know the event refuses all for one.
    @Test func anUnknownTopicIsLeftOutForAnOlderDaemon() async throws {
        try await StreamServer.serving { peer, _ in
            if peer.path.contains("NEWS") {
                peer.answer(404, ["Content-Type: application/json"], "{\"error\":\"no such topic\"}")
            } else if peer.path.hasPrefix("/v1/state") {
                peer.answer(json: "{}")
            } else {
                peer.openStream(syncedEvent("e.1") + message(2, cursor: "e.2"))
            }
        } _: { server in
            try await check(server)
            #expect(server.peers.contains { $0.path.hasPrefix("/v1/events?topic=PUSH_RC&project") })
        }
    }

    private func check(_ server: StreamServer) async throws {
        let app = app(server)
        defer { app.delete() }
        try await app.config.fetchAndActivate()
        app.config.addOnConfigUpdateListener { _, _ in }
        values.publish(["a": "2"])
        let messaging = PushMessaging.messaging(app: app)
        await #expect(throws: PushMessagingError.unknownTopic("NEWS")) {
            try await messaging.subscribe(toTopic: "NEWS")
        }
        try await eventually { app.config.fetchedVersion == 2 }
        try await eventually { problems.list.contains(.unknownTopic("NEWS")) }
        #expect(messaging.topics == ["NEWS"], "it is kept, for servers learn topics")
    }
}
