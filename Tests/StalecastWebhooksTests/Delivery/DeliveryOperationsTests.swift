import StalecastTestServers
import StalecastWebhooks
import StalecastWire
import Testing

/// What operators do and are told.
@Suite struct DeliveryOperationsTests {
    @Test func recoveryIsTold() async throws {
        let repaired = Gate()
        try await OriginServer.serving({ request in
            .status(request.target == "/shaky" && !repaired.isOpen ? 500 : 200)
        }) { server in
            let shaky = try DeliveryFixture.webhook("\(server.url)/shaky")
            let listener = try DeliveryFixture.webhook("\(server.url)/ops", topics: [.webhookOperations])
            try await DeliveryFixture().run([shaky, listener]) { fixture in
                try fixture.publish()
                try await eventually { server.requests.count { $0.target == "/shaky" } >= 6 }
                repaired.open()
                try await eventually { server.bodies.contains("webhook.recovered") }
            }
        }
    }

    @Test func aListenerMayBeRemovedWhileItIsBeingTold() async throws {
        let gate = Gate()
        try await OriginServer.serving({ request in
            guard request.target == "/ops" else { return .status(500) }
            gate.pass()
            return .status(500)
        }) { server in
            let broken = try DeliveryFixture.webhook("\(server.url)/broken")
            let listener = try DeliveryFixture.webhook("\(server.url)/ops", topics: [.webhookOperations])
            try await DeliveryFixture { $0.disableAfter = .milliseconds(20) }.run([broken, listener]) { fixture in
                try fixture.publish()
                try await eventually { server.bodies.contains("webhook.disabled") }
                try fixture.delivery.remove(listener.id)
                #expect(try await fixture.delivery.status(of: listener.id) == nil)
                gate.open()
                try await eventually { try await fixture.delivery.tally().underWay.values.allSatisfy { $0 == 0 } }
            }
        }
    }

    @Test func aWebhookMayBeRemovedWhileItsBacklogIsRead() async throws {
        let stage = try DeliveryFixture()
        try await OriginServer.serving({ _ in .status(500) }) { server in
            for _ in 0..<1000 { _ = stage.commit() }
            for _ in 0..<10 {
                try await stage.run(remembered: 1) { fixture in
                    for _ in 0..<20 {
                        let webhook = try DeliveryFixture.webhook(server.url, mode: .all)
                        try fixture.delivery.install(webhook)
                        try fixture.delivery.remove(webhook.id)
                    }
                    try await eventually { try await fixture.delivery.tally().underWay.values.allSatisfy { $0 == 0 } }
                }
            }
        }
    }

    @Test func aTestMessageIsSentAtOnceAndListed() async throws {
        try await OriginServer.serving({ .status($0.body.hasPrefix("test") ? 202 : 200, [], "thanks") }) { server in
            var webhook = try DeliveryFixture.webhook(server.url)
            webhook.isPaused = true
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish(2)
                let attempt = try #require(try await fixture.delivery.test(webhook.id))
                #expect(attempt.status == 202 && attempt.kind == "test" && attempt.response == "thanks")
                #expect(server.bodies == ["test 2"])
                #expect(try fixture.attempts(webhook).map(\.kind) == ["test"])
                #expect(try await fixture.delivery.test(.random()) == nil)
            }
        }
    }

    @Test func attemptsAreListedPageByPage() async throws {
        try await OriginServer.serving({ _ in .status(200) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .fifo(onExhaustion: .block))
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish(5)
                try await eventually { try await fixture.isDone(webhook) }
                let first = try fixture.delivery.attempts(of: webhook.id, limit: 3, before: nil)
                #expect(first.attempts.map(\.version) == [5, 4, 3] && first.next != nil)
                let second = try fixture.delivery.attempts(of: webhook.id, limit: 3, before: first.next)
                #expect(second.attempts.map(\.version) == [2, 1] && second.next == nil)
            }
        }
    }
}
