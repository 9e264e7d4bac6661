import Foundation
import StalecastClient
import StalecastTestSupport
import Synchronization
import Testing

@Suite struct PushMessagingTests {
    private let server = LocalConfigServer(values: ["a": "1"])
    private let clock = TestClock()

    private final class Delegate: PushMessagingDelegate {
        let messages = Mutex<[[String: String]]>([])

        func messaging(_ messaging: PushMessaging, didReceiveRemoteNotification userInfo: [String: String]) {
            messages.withLock { $0.append(userInfo) }
        }
    }

    @Test func aMessageSetsTheFlagAndTheNextFetchAsks() async throws {
        let app = StalecastApp.test(server, clock: clock)
        defer { app.delete() }
        try await app.config.fetchAndActivate()
        let messaging = PushMessaging.messaging(app: app)
        let delegate = Delegate()
        messaging.delegate = delegate
        let handled = Mutex<[[String: String]]>([])
        messaging.onMessage { message in handled.withLock { $0.append(message) } }
        try await messaging.subscribe(toTopic: "PUSH_RC")
        try await eventually { server.listenerCount == 1 }
        server.publish(["a": "2"])
        try await eventually { messaging.isConfigStale }
        try await eventually { delegate.messages.withLock { $0.count } == 1 }
        #expect(delegate.messages.withLock { $0.first?["CONFIG_STATE"] } == "STALE")
        try await eventually { handled.withLock { $0.first?["latestTemplateVersionNumber"] } == "2" }
        #expect(server.fetchCount == 1, "the message alone fetches nothing")
        #expect(try await app.config.fetchAndActivate() == .successFetchedFromRemote)
        #expect(!messaging.isConfigStale)
        #expect(app.config["a"].stringValue == "2")
    }

    @Test func theSwitchFetchesAndTells() async throws {
        let app = StalecastApp.test(server, clock: clock)
        defer { app.delete() }
        try await app.config.fetchAndActivate()
        let messaging = PushMessaging.messaging(app: app)
        try await messaging.subscribe(toTopic: "PUSH_RC")
        #expect(!messaging.fetchesAutomatically)
        try await eventually { server.listenerCount == 1 }
        server.publish(["a": "2"])
        try await eventually { messaging.isConfigStale }
        messaging.fetchesAutomatically = true
        try await eventually {
            clock.advance(by: 2)
            return app.config.fetchedVersion == 2
        }
        clock.random = 0.5
        server.publish(["a": "3"], fetchWindowMs: 10000)
        try await eventually { clock.pending == [5] }
        clock.advance(by: 5)
        try await eventually { app.config.fetchedVersion == 3 }
        messaging.fetchesAutomatically = false
        server.publish(["a": "4"])
        try await eventually { messaging.isConfigStale }
        #expect(app.config.fetchedVersion == 3)
    }

    @Test func otherDataMessagesOnlyReachHandlers() async throws {
        let app = StalecastApp.test(server, clock: clock)
        defer { app.delete() }
        try await app.config.fetchAndActivate()
        let messaging = PushMessaging.messaging(app: app)
        let delegate = Delegate()
        messaging.delegate = delegate
        try await messaging.subscribe(toTopic: "news")
        try await eventually { server.listenerCount == 1 }
        server.send(message: ["headline": "hello"], toTopic: "news")
        try await eventually { delegate.messages.withLock { $0 } == [["headline": "hello"]] }
        #expect(!messaging.isConfigStale)
    }

    @Test func subscriptionsOutliveTheProcessUntilUndone() async throws {
        let directory = scratchDirectory()
        let first = StalecastApp.test(server, directory: directory)
        try await PushMessaging.messaging(app: first).subscribe(toTopic: "/topics/news")
        try await PushMessaging.messaging(app: first).subscribe(toTopic: "PUSH_RC")
        first.delete()
        let second = StalecastApp.test(server, directory: directory)
        let messaging = PushMessaging.messaging(app: second)
        #expect(messaging.topics == ["PUSH_RC", "news"])
        try await eventually { server.listenerCount == 1 }
        try await messaging.unsubscribe(fromTopic: "news")
        try await messaging.unsubscribe(fromTopic: "PUSH_RC")
        #expect(messaging.topics.isEmpty)
        try await eventually { server.listenerCount == 0 }
        second.delete()
    }

    @Test(arguments: ["", "two words", "ü", "a/b", String(repeating: "x", count: 256)])
    func badTopicsAreRefused(topic: String) async {
        let app = StalecastApp.test(server)
        let messaging = PushMessaging.messaging(app: app)
        await #expect(throws: PushMessagingError.invalidTopicName(topic)) {
            try await messaging.subscribe(toTopic: topic)
        }
        let error = await withCheckedContinuation { done in
            messaging.subscribe(toTopic: topic) { done.resume(returning: $0 as? PushMessagingError) }
        }
        #expect(error == .invalidTopicName(topic))
        #expect(messaging.topics.isEmpty)
        app.delete()
    }

    @Test func googlesServersHaveNoTopicsForUs() async {
        let app = StalecastApp.test(server) { $0.server = .firebase(.google) }
        await #expect(throws: PushMessagingError.noTopics) {
            try await PushMessaging.messaging(app: app).subscribe(toTopic: "PUSH_RC")
        }
        app.delete()
    }

    @Test func aHandlerMayRemoveAnotherWhenItIsRemoved() async throws {
        let app = StalecastApp.test(LocalConfigServer())
        defer { app.delete() }
        let messaging = PushMessaging.messaging(app: app)
        let ended = Mutex(0)
        let registration: ConfigUpdateListenerRegistration
        do {
            let model = Model { ended.withLock { $0 += 1 } }
            model.registration = messaging.onMessage { _ in }
            registration = messaging.onMessage { _ in model.changed() }
        }
        registration.remove()
        #expect(ended.withLock { $0 } == 1)
    }
}
