import Foundation
import GRDB
import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

@Suite struct DeliveryIsolationTests {
    /// Three times as many dead webhooks as there are places: the others hear of every version while those hang.
    @Test func blackHolesDoNotHoldUpTheOthers() async throws {
        try await OriginServer.serving({ _ in OriginServer.Reply(bytes: [], hangs: true) }) { hole in
            try await OriginServer.serving({ _ in .status(204) }) { server in
                try await DeliveryFixture.running(maxInFlight: 16) { fixture in
                    let limits = WebhookLimits(timeout: .seconds(60))
                    for number in 0..<48 {
                        _ = try fixture.install(fixture.webhook("\(hole.url)/\(number)", limits: limits))
                    }
                    var healthy: [Webhook] = []
                    for number in 0..<20 {
                        healthy.append(try fixture.install(fixture.webhook("\(server.url)/\(number)")))
                    }
                    for _ in 0..<5 {
                        try fixture.publish()
                        for webhook in healthy { try await fixture.settled(webhook.id) }
                    }
                    let tally = try await fixture.delivery.tally()
                    #expect(tally.underWay["slow", default: 0] > 0)
                }
            }
        }
    }

    @Test func aDatabaseThatCannotBeWrittenStopsAcknowledgementsNotDeliveries() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await fixture.settled(webhook.id)
                let delivery = try fixture.delivery
                var unsafe = Configuration()
                unsafe.allowsUnsafeTransactions = true
                let blocker = try DatabaseQueue(path: fixture.databasePath, configuration: unsafe)
                try await blocker.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
                try fixture.publish()
                try await eventually { delivery.failure != nil }
                try fixture.publish(3)
                try await fixture.settled(webhook.id)
                try await blocker.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
                try await eventually { delivery.failure == nil }
                await fixture.end()
                try fixture.start([webhook])
                #expect(try await fixture.delivery.status(of: webhook.id)?.scopes.first?.acknowledged == 5)
            }
        }
    }

    /// Publishes, failures and restarts in any order: in the end the newest version is acknowledged, and no receiver
    /// ever saw a version after a newer one.
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func anyHistoryEndsAtTheNewestVersion(seed: UInt64) async throws {
        let random = Mutex(SeededRandom(seed: seed))
        try await OriginServer.serving({ _ in
            switch random.withLock({ Int.random(in: 0..<6, using: &$0) }) {
            case 0: .status(500)
            case 1: .status(503, ["Retry-After: 0"])
            case 2: .raw("", closes: true)
            default: .status(204)
            }
        }) { server in
            try await DeliveryFixture.running { fixture in
                let webhooks = try (0..<6).map { try fixture.install(fixture.webhook("\(server.url)/\($0)")) }
                for _ in 0..<60 {
                    switch random.withLock({ Int.random(in: 0..<5, using: &$0) }) {
                    case 0:
                        await fixture.end()
                        // A request of before, that its receiver has not read yet, is no older message after a newer one.
                        try await eventually { !server.isConnected }
                        try fixture.start(webhooks)
                    case 1: try await Task.sleep(for: .milliseconds(3))
                    default: try fixture.publish()
                    }
                }
                for webhook in webhooks { try await fixture.settled(webhook.id) }
                for number in 0..<6 {
                    let versions = server.requests.filter { $0.target == "/\(number)" }.compactMap {
                        $0.body.split(separator: " ").first.flatMap { Int64($0) }
                    }
                    #expect(versions == versions.sorted())
                    #expect(versions.last == fixture.store.withLock { Int64($0.count) })
                }
            }
        }
    }
}
