import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct DeliveryModeTests {
    @Test func aPublishReachesEveryWebhook() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhooks = try (0..<30).map { try DeliveryFixture.webhook("\(server.url)/\($0)") }
            try await DeliveryFixture().run(webhooks) { fixture in
                try fixture.publish()
                try await eventually { server.requests.count == 30 }
                #expect(Set(server.requests.map(\.target)).count == 30)
                #expect(Set(server.bodies) == ["1 0 0"])
                for webhook in webhooks { try await eventually { try await fixture.isDone(webhook) } }
            }
        }
    }

    @Test func aPausedWebhookIsOwedTheNewestOnly() async throws {
        try await OriginServer.serving({ _ in .status(200) }) { server in
            var webhook = try DeliveryFixture.webhook(server.url)
            webhook.isPaused = true
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish(5)
                #expect(try await fixture.state(webhook) == .paused)
                webhook.isPaused = false
                try fixture.delivery.install(webhook)
                try await eventually { try await fixture.isDone(webhook) }
                #expect(server.versions == [5])
            }
        }
    }

    @Test func aBacklogThatMemoryDoesNotHoldIsReadFromTheStore() async throws {
        let repaired = Gate()
        let stage = try DeliveryFixture()
        try await OriginServer.serving({ _ in .status(repaired.isOpen ? 200 : 500) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .fifo(onExhaustion: .block))
            try await stage.run([webhook]) { fixture in
                try fixture.publish(1500)
                try await eventually { !server.requests.isEmpty }
            }
            repaired.open()
            let before = server.requests.count
            try await stage.run([webhook], remembered: 10) { fixture in
                try await eventually { try await fixture.isDone(webhook) }
            }
            #expect(server.versions.dropFirst(before).elementsEqual(1...1500))
        }
    }

    /// An origin's numbers may be times: there are no more versions between two than commits.
    @Test func numbersThatLeapAreNoFoldedVersions() async throws {
        let stage = try DeliveryFixture()
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await fixture.settled(webhook.id)
            }
            for number in [1_000_000, .max] as [VersionNumber] { stage.commit(number) }
            try await stage.run([webhook], remembered: 1) { fixture in
                try await eventually { try await fixture.isDone(webhook) }
                #expect(try await fixture.delivery.tally().coalesced == 1)
            }
            #expect(server.bodies == ["1 0 0", "9007199254740992 1 1"])
        }
    }

    @Test func whatWasAcknowledgedOutOfOrderIsNotSentAgainAfterARestart() async throws {
        let repaired = Gate()
        let stage = try DeliveryFixture()
        try await OriginServer.serving({ request in
            .status(request.version == 1 && !repaired.isOpen ? 400 : 200)
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .all)
            try await stage.run([webhook]) { fixture in
                try fixture.publish(4)
                try await eventually { Set(server.versions) == [1, 2, 3, 4] }
                try await eventually { try fixture.attempts(webhook).filter { $0.result.status == 200 }.count == 3 }
            }
            repaired.open()
            let before = server.requests.count
            try await stage.run([webhook]) { fixture in
                try await eventually { try await fixture.isDone(webhook) }
            }
            #expect(Array(server.versions.dropFirst(before)) == [1])
        }
    }

    @Test func fifoAdvanceMovesAnExhaustedVersionToTheDeadLettersAndRedriveSendsIt() async throws {
        let repaired = Gate()
        try await OriginServer.serving({ request in
            .status(request.version == 2 && !repaired.isOpen ? 500 : 200)
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .fifo(onExhaustion: .advance))
            try await DeliveryFixture { $0.pace.versionWindow = .milliseconds(60) }.run([webhook]) { fixture in
                try fixture.publish(3)
                try await eventually { server.versions.last == 3 }
                let letter = try #require(try fixture.deadLetters(webhook).first)
                #expect(letter.version == 2 && letter.reason == "exhausted" && letter.lastStatus == 500)
                #expect(letter.attempts == server.versions.count { $0 == 2 })
                repaired.open()
                #expect(try await fixture.delivery.redrive(webhook.id, letter: letter.id) == 1)
                try await eventually { server.versions.last == 2 }
                #expect(try fixture.deadLetters(webhook).isEmpty)
            }
        }
    }

    @Test func fifoBlocksOnAnExhaustedVersionUntilItIsTaken() async throws {
        let repaired = Gate()
        try await OriginServer.serving({ request in
            .status(request.version == 2 && !repaired.isOpen ? 500 : 200)
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .fifo(onExhaustion: .block))
            try await DeliveryFixture { $0.pace.versionWindow = .milliseconds(20) }.run([webhook]) { fixture in
                try fixture.publish(3)
                try await eventually { server.versions.count > 12 }
                #expect(!server.versions.contains(3))
                #expect(try fixture.deadLetters(webhook).isEmpty)
                repaired.open()
                try await eventually { server.versions.last == 3 }
            }
        }
    }

    @Test func aRedrivenLetterIsStillOwedAfterARestart() async throws {
        let repaired = Gate()
        let stage = try DeliveryFixture()
        try await OriginServer.serving({ request in
            .status(request.version == 1 && !repaired.isOpen ? 413 : 200)
        }) { server in
            var webhook = try DeliveryFixture.webhook(server.url, mode: .all)
            try await stage.run([webhook]) { fixture in
                try fixture.publish(2)
                try await eventually { try await fixture.isDone(webhook) }
                webhook.isPaused = true
                try fixture.delivery.install(webhook)
                #expect(try await fixture.delivery.redrive(webhook.id, letter: nil) == 1)
            }
            repaired.open()
            webhook.isPaused = false
            let before = server.requests.count
            try await stage.run([webhook]) { _ in
                try await eventually { server.requests.count > before }
            }
            #expect(Array(server.versions.dropFirst(before)) == [1])
        }
    }
}
