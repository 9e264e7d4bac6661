import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

/// Tests what operators do and are told.
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

    @Test func recoveryAfterEnablingIsToldWithTheTimeBefore() async throws {
        let repaired = Gate()
        try await OriginServer.serving({ request in
            .status(request.target.hasPrefix("/broken") && !repaired.isOpen ? 500 : 200)
        }) { server in
            let broken = try DeliveryFixture.webhook("\(server.url)/broken?token=s3cr3t")
            let listener = try DeliveryFixture.webhook("\(server.url)/ops", topics: [.webhookOperations])
            try await DeliveryFixture { $0.disableAfter = .milliseconds(20) }.run([broken, listener]) { fixture in
                let begin = Timestamp.now()
                try fixture.publish()
                for time in 1...2 {
                    // The second time it is enabled too early.
                    try await eventually { try server.news("webhook.disabled").count == time }
                    if time == 2 { repaired.open() }
                    let end = Timestamp.now()
                    #expect(try await fixture.delivery.enable(broken.id))
                    if time == 1 { continue }
                    try await eventually { try !server.news("webhook.recovered").isEmpty }
                    let since = try server.news("webhook.recovered")[0]["failingSince"]?.string.flatMap(Timestamp.init)
                    #expect(try begin...end ~= #require(since))
                }
                try await eventually { try await fixture.isDone(broken) }
                #expect(try server.news("webhook.recovered").count == 1)
                // Others than its owner do not see the query.
                let told = try server.news("webhook.disabled") + server.news("webhook.recovered")
                #expect(told.allSatisfy { $0["url"]?.string == "\(server.url)/broken" }, "\(told)")
                // What goes well afterwards is no news.
                try fixture.publish()
                try await eventually { try await fixture.isDone(broken) }
                #expect(try server.news("webhook.recovered").count == 1)
            }
        }
    }

    @Test func enablingWhatDidNotFailTellsNothing() async throws {
        try await OriginServer.serving({ _ in .status(200) }) { server in
            let webhook = try DeliveryFixture.webhook("\(server.url)/fine")
            let listener = try DeliveryFixture.webhook("\(server.url)/ops", topics: [.webhookOperations])
            try await DeliveryFixture().run([webhook, listener]) { fixture in
                #expect(try await fixture.delivery.enable(webhook.id))
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                #expect(server.requests.allSatisfy { $0.target == "/fine" })
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

    @Test(arguments: [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2]])
    func whatIsRemovedIsToldNothingMoreAndTheOthersAre(removed: [Int]) async throws {
        try await OriginServer.serving({ _ in .status(200) }) { server in
            // The first one's interest in the scope comes last.
            var webhooks = try (0..<3).map {
                try DeliveryFixture.webhook("\(server.url)/\($0)", topics: [$0 == 0 ? .webhookOperations : .pushRC])
            }
            try await DeliveryFixture().run(webhooks) { fixture in
                webhooks[0].topics = [.pushRC]
                try fixture.delivery.install(webhooks[0])
                for index in removed { try fixture.delivery.remove(webhooks[index].id) }
                try fixture.publish()
                let left = try #require(Set(0..<3).subtracting(removed).first)
                try await eventually { try await fixture.isDone(webhooks[left]) }
                #expect(server.requests.map(\.target) == ["/\(left)"])
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
                #expect(attempt.result.status == 202 && attempt.kind == "test" && attempt.result.response == "thanks")
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
