import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// Tests that an answer says nothing about the next receiver, and that one which is no longer meant gets nothing.
@Suite struct DeliveryReceiverTests {
    @Test func anotherURLInTheFileIsTriedAfterARestart() async throws {
        try await OriginServer.serving(Self.newAnswers) { server in
            let old = try DeliveryFixture.webhook("\(server.url)/old")
            let stage = try DeliveryFixture()
            try await stage.run([old]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.state(old)?.name == "disabled" }
            }
            // As it was it stays off.
            try await stage.run([old]) { fixture in
                let state = try await fixture.state(old)
                #expect(state?.name == "disabled")
            }
            var new = old
            new.url = try OutboundURL("\(server.url)/new")
            try await stage.run([new]) { fixture in
                try await eventually { server.versions(at: "/new") == [1] }
                #expect(try await fixture.state(new) == .active)
            }
            #expect(server.versions(at: "/old") == [1])
        }
    }

    /// Taken out of the file for one start, and back with the same name, which is its id.
    @Test func whoWasAwayForARunInheritsNothing() async throws {
        try await OriginServer.serving(Self.newAnswers) { server in
            let webhook = try DeliveryFixture.webhook("\(server.url)/old")
            let stage = try DeliveryFixture()
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.state(webhook)?.name == "disabled" }
            }
            try await stage.run([]) { _ in }
            try await stage.run([webhook]) { fixture in
                try await eventually { server.versions(at: "/old") == [1, 1] }
                // An attempt is stored after its answer came.
                try await eventually { try fixture.attempts(webhook).count == 1 }
            }
        }
    }

    @Test(arguments: [DeliveryMode.latest, .all, .fifo(onExhaustion: .block)])
    func aVersionThatOneReceiverRefusedIsOfferedToTheNext(mode: DeliveryMode) async throws {
        try await OriginServer.serving({ .status($0.target == "/small" ? 413 : 204) }) { server in
            var webhook = try DeliveryFixture.webhook("\(server.url)/small", mode: mode)
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try !fixture.deadLetters(webhook).isEmpty }
                // Another description changes nothing: it is not offered again to who refused it.
                webhook.description = "small"
                try fixture.delivery.install(webhook)
                webhook.url = try OutboundURL("\(server.url)/large")
                try fixture.delivery.install(webhook)
                try await eventually { server.versions(at: "/large") == [1] }
                #expect(server.versions(at: "/small") == [1])
            }
        }
    }

    enum Change: CaseIterable { case removed, paused, moved }

    @Test(arguments: Change.allCases)
    func whatWaitsForATokenIsSentOnlyIfItIsWantedStill(change: Change) async throws {
        let formatter = TokenFormatter()
        try await OriginServer.serving({ _ in .status(204) }) { server in
            var webhook = try DeliveryFixture.webhook("\(server.url)/old")
            try await DeliveryFixture(formatter: formatter).run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { formatter.isAsked.isOpen }
                switch change {
                case .removed: try fixture.delivery.remove(webhook.id)
                case .paused: webhook.isPaused = true
                case .moved: webhook.url = try OutboundURL("\(server.url)/new")
                }
                if change != .removed { try fixture.delivery.install(webhook) }
                // The change is on its way to the loop before the token is.
                _ = try await fixture.delivery.tally()
                formatter.give()
                try await eventually { try await fixture.delivery.tally().underWay.values.allSatisfy { $0 == 0 } }
                if change == .moved { try await eventually { try await fixture.isDone(webhook) } }
                #expect(server.requests.map(\.target) == (change == .moved ? ["/new"] : []))
            }
        }
    }

    /// Only `/old` asks not to be called any more.
    private static let newAnswers: @Sendable (OriginServer.Request) -> OriginServer.Reply = {
        .status(200, $0.target == "/old" ? ["Webhook-Delivery: disable"] : [])
    }
}

/// Has no token for the first attempt until one is given.
private final class TokenFormatter: AttemptFormatter {
    let isAsked = Gate()
    private let tokens = AsyncStream.makeStream(of: Void.self)

    func give() { tokens.continuation.finish() }

    func request(
        for delivery: Delivery, webhook: RegisteredWebhook, at now: Timestamp
    ) throws(AttemptProblem) -> AttemptPlan {
        if isAsked.isOpen { return try PlainFormatter().request(for: delivery, webhook: webhook, at: now) }
        isAsked.open()
        let stream = tokens.stream
        return .needsToken { () async throws(AttemptProblem) in for await _ in stream {} }
    }

    func answered(status: Int, to request: OutboundRequest, webhook: Webhook) {}
}
