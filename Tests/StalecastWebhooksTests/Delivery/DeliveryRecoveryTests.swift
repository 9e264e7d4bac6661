import GRDB
import StalecastHub
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// Tests what is owed after a restore, a pause, an operator's command, or refusals without end.
@Suite struct DeliveryRecoveryTests {
    @Test(arguments: [DeliveryMode.latest, .all, .fifo(onExhaustion: .block)])
    func aRestoredStoreOwesItsNewestVersionOnce(mode: DeliveryMode) async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: mode)
            let stage = try DeliveryFixture()
            try await stage.run([webhook]) { fixture in
                for _ in 0..<7 {
                    try fixture.publish()
                    try await fixture.settled(webhook.id)
                }
            }
            #expect(server.versions == Array(1...7))
            stage.epoch.withLock { $0 = .random() }
            for _ in 0..<2 { try await stage.run([webhook]) { try await $0.settled(webhook.id) } }
            #expect(Array(server.versions.dropFirst(7)) == [7])
        }
    }

    /// Its sequence is another version's by now.
    @Test func aDeadLetterOfAnotherHistoryIsNotRedriven() async throws {
        try await OriginServer.serving({ .status($0.version == 3 ? 413 : 204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .all)
            let stage = try DeliveryFixture()
            try await stage.run([webhook]) { fixture in
                try fixture.publish(3)
                try await eventually { try fixture.deadLetters(webhook).map(\.version) == [3] }
            }
            stage.store.withLock { _ = $0.removeLast() }
            stage.epoch.withLock { $0 = .random() }
            try await stage.run([webhook]) { fixture in
                try await fixture.settled(webhook.id)
                try fixture.publish()
                try await eventually { try fixture.deadLetters(webhook).count == 2 }
                let former = try #require(try fixture.deadLetters(webhook).first)
                #expect(try await fixture.delivery.redrive(webhook.id, letter: former.id) == 0)
                #expect(try await fixture.delivery.redrive(webhook.id, letter: nil) == 1)
                #expect(try fixture.deadLetters(webhook).map(\.id).contains(former.id))
            }
        }
    }

    /// The daemon takes its last sample of the timeline then.
    @Test func afterTheEnginesEndItStillAnswers() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            var ended: WebhookDelivery?
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await fixture.settled(webhook.id)
                ended = try fixture.delivery
            }
            let delivery = try #require(ended)
            let delivered = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<8 { group.addTask { await delivery.tally().delivered } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(delivered == Array(repeating: 1, count: 8))
        }
    }

    enum Command: CaseIterable { case resume, redeliver, recover, enable }

    /// Its backoff is hours long.
    @Test(arguments: Command.allCases) func anOperatorsCommandIsCarriedOutAtOnce(command: Command) async throws {
        let repaired = Gate()
        try await OriginServer.serving({ _ in .status(repaired.isOpen ? 204 : 500) }) { server in
            var webhook = try DeliveryFixture.webhook(server.url)
            try await DeliveryFixture { $0.pace.floor = .seconds(3600) }.run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.delivery.status(of: webhook.id)?.failures == 1 }
                webhook.isPaused = command == .resume
                try fixture.delivery.install(webhook)
                repaired.open()
                let delivery = try fixture.delivery
                switch command {
                case .resume:
                    webhook.isPaused = false
                    delivery.install(webhook)
                case .redeliver:
                    #expect(await delivery.redeliver(webhook.id, scope: DeliveryFixture.scope, version: nil) == 1)
                case .recover: #expect(await delivery.recover(webhook.id, since: Timestamp(microseconds: 0)) == 1)
                case .enable: #expect(await delivery.enable(webhook.id))
                }
                try await fixture.settled(webhook.id)
                #expect(server.versions == [1, 1])
            }
        }
    }

    @Test(arguments: [413, 415]) func whoTakesNothingForTooLongIsDisabled(status: Int) async throws {
        try await OriginServer.serving({ _ in .status(status) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .all)
            try await DeliveryFixture { $0.disableAfter = .milliseconds(1) }.run([webhook]) { fixture in
                try await eventually {
                    try fixture.publish()
                    guard case .disabled("failing", _)? = try await fixture.state(webhook) else { return false }
                    return true
                }
                #expect(try fixture.deadLetters(webhook).count >= 10)
            }
        }
    }

    @Test func ofDeadLettersTheNewestThousandAreKept() async throws {
        try await OriginServer.serving({ _ in .status(413) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .fifo(onExhaustion: .block))
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish(1010)
                try await eventually { server.versions.last == 1010 }
                try await eventually { try fixture.deadLetters(webhook).last?.version == 1010 }
                let kept = try fixture.deadLetters(webhook).map(\.version.rawValue)
                #expect(kept == Array(11...1010))
            }
        }
    }

    /// Gives a version the time of its origin, whose clock may be any.
    @Test func aNewWebhookIsOwedWhatIsCommittedAfterItWhateverTheOriginsClockSays() async throws {
        let times = [4_000_000_000_000_000, 0].map { Timestamp(microseconds: $0) }
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let stage = try DeliveryFixture()
            stage.commit(at: times[0])
            try await stage.run { fixture in
                let model = try DeliveryFixture.webhook(server.url, mode: .all)
                let webhook = try fixture.install(
                    Webhook(
                        id: model.id, project: model.project, url: model.url, mode: .all, limits: model.limits,
                        createdAt: .now()))
                try fixture.delivery.announce(fixture.commit(at: times[1]), at: 0)
                try await fixture.settled(webhook.id)
                #expect(server.versions == [2])
            }
        }
    }

    /// More versions of other topics than one read brings stand between those it is about.
    @Test func afterARestartTheNewestIsSentHoweverFarTheStoreMustBeRead() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            let stage = try DeliveryFixture(keys: ["key1", "key2", "key303"])
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await fixture.settled(webhook.id)
            }
            for _ in 0..<619 { stage.commit() }
            try await stage.run([webhook]) { fixture in
                try await eventually { server.versions.contains(303) }
                try await eventually { try await fixture.isDone(webhook) }
                #expect(server.versions == [1, 303])
            }
        }
    }

    /// Sends on request what is older than the versions in memory.
    @Test(arguments: [DeliveryMode.latest, .fifo(onExhaustion: .advance)])
    func afterARestartOldVersionsAndLettersAreSentOnRequest(mode: DeliveryMode) async throws {
        let repaired = Gate()
        try await OriginServer.serving({ .status($0.version == 2 && !repaired.isOpen ? 413 : 204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: mode)
            let stage = try DeliveryFixture(keys: ["key1", "key2"])
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await fixture.settled(webhook.id)
                try fixture.publish()
                try await eventually { try fixture.deadLetters(webhook).map(\.version) == [2] }
            }
            repaired.open()
            for _ in 0..<620 { stage.commit() }
            try await stage.run([webhook]) { fixture in
                #expect(try await fixture.delivery.redrive(webhook.id, letter: nil) == 1)
                try await eventually { server.versions == [1, 2, 2] }
                #expect(try fixture.deadLetters(webhook).isEmpty)
            }
            try await stage.run([webhook]) { fixture in
                let scope = DeliveryFixture.scope
                let status = try #require(await fixture.delivery.status(of: webhook.id)?.scopes.first)
                #expect(status.current == 2 && status.lag == 0)
                _ = try await fixture.delivery.test(webhook.id)
                #expect(server.bodies.last == "test 2")
                #expect(try await fixture.delivery.redeliver(webhook.id, scope: scope, version: 2) == 1)
                try await eventually { server.versions == [1, 2, 2, 2] }
            }
        }
    }

    @Test func aRestartRemembersManyWebhooksOfOneTransaction() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let fixture = try DeliveryFixture()
            let webhooks = try (1...37).map { try fixture.webhook("\(server.url)/\($0)") }
            try await fixture.run(webhooks) { fixture in
                try fixture.publish()
                for webhook in webhooks { try await fixture.settled(webhook.id) }
            }
            try await fixture.run(webhooks) { fixture in
                for webhook in webhooks {
                    try await fixture.settled(webhook.id)
                    #expect(try fixture.attempts(webhook).map(\.version) == [1])
                }
            }
            #expect(server.requests.count == webhooks.count)
        }
    }

    /// Ends in good order: what is gathered for a tenth of a second is not lost.
    @Test func theEndWritesWhatWaits() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let stage = try DeliveryFixture()
            let webhook = try stage.webhook(server.url)
            try stage.start([webhook])
            try stage.publish()
            try await stage.settled(webhook.id)
            await stage.end()
            let queue = try DatabaseQueue(path: stage.databasePath)
            #expect(try await queue.read { try Int.fetchOne($0, sql: "SELECT version FROM cursor") } == 1)
            #expect(try await queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM chunk") } == 1)
        }
    }

    @Test(arguments: [DeliveryMode.latest, .all])
    func aLetterStaysWhenTheStoreHasNothingToSendForIt(mode: DeliveryMode) async throws {
        try await OriginServer.serving({ _ in .status(413) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: mode)
            let stage = try DeliveryFixture(keys: ["key1"])
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try fixture.deadLetters(webhook).map(\.version) == [1] }
            }
            stage.commit()
            stage.store.withLock { _ = $0.removeFirst() }
            try await stage.run([webhook]) { fixture in
                let owed = try await fixture.delivery.redrive(webhook.id, letter: nil)
                #expect(owed == 0)
                #expect(try fixture.deadLetters(webhook).map(\.version) == [1])
            }
        }
    }

    @Test func whatCannotBeWrittenDoesNotPileUp() throws {
        let (one, other) = (WebhookID.random(), WebhookID.random())
        let entries = (0..<1000).flatMap { number -> [JournalEntry] in
            var record = JournalEntry.LaneRecord()
            record.givenUp = UInt64(number)
            var health = JournalEntry.TargetHealth()
            health.failures = number
            return [one, other].flatMap { id -> [JournalEntry] in
                [.lane(id, DeliveryFixture.scope, record), .health(id, health)]
            }
        }
        let gone = JournalEntry.removed(.random())
        let newest = ([gone] + entries).newest
        #expect(newest.count == 5)
        var image = DeliveryImage()
        newest.forEach { image.take($0) }
        #expect(image.health[one]?.failures == 999 && image.lanes[other]?[DeliveryFixture.scope]?.record.givenUp == 999)
    }

    /// Reading it takes seconds with a long history, at each start.
    @Test func aWebhookOfNoScopeNeedsNoHistory() throws {
        let news = try DeliveryFixture.webhook("http://127.0.0.1:1/", topics: [.webhookOperations])
        let both = try DeliveryFixture.webhook("http://127.0.0.1:1/", topics: [.webhookOperations, .pushRC])
        var image = DeliveryImage()
        #expect(!image.needsAll([news], bound: [.pushRC]) && image.needsAll([news, both], bound: [.pushRC]))
        image.ids = [both.id]
        #expect(!image.needsAll([news, both], bound: [.pushRC]))
    }

    /// Owes as many as `recover` may at once; the sending thread does it in one turn.
    @Test func owingManyVersionsAgainIsLinear() throws {
        let webhook = try DeliveryFixture.webhook("http://127.0.0.1:1/", mode: .all)
        let stage = try DeliveryFixture()
        try expectLinear(upTo: 16_384) { count in
            stage.store.withLock { $0 = [] }
            return (0..<count).map { _ in stage.commit() }
        } _: { changes in
            let route = TopicBinding(name: .pushRC, scopes: [DeliveryFixture.scope])
            var state = DeliveryState(
                DeliveryConfiguration(path: ""), routes: [route], random: SeededRandom(seed: 1))
            var paused = webhook
            paused.isPaused = true
            let now = Moment(monotonic: 1, wall: .now())
            state.begin([], changes, DeliveryImage(), opened: now.wall, at: now)
            state.installed(paused, at: 1)
            // Twice, the older half last: neither order costs more.
            let sequences = changes.map(\.sequence)
            let (older, newer) = (sequences.prefix(sequences.count / 2), sequences.suffix(sequences.count / 2))
            for part in [newer, older] {
                state.owe(webhook.id, DeliveryFixture.scope, Array(part), isStored: false, at: 1)
            }
        }
    }
}
