import Foundation
import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

@Suite struct DeliveryTests {
    @Test func aVersionIsSentOnceAndAcknowledged() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await fixture.settled(webhook.id)
                #expect(server.requests.map(\.body) == ["1 0 0"])
                let page = try fixture.delivery.attempts(of: webhook.id, limit: 10, before: nil)
                let attempt = try #require(page.attempts.first)
                #expect(page.attempts.count == 1 && page.next == nil)
                #expect(attempt.result.status == 204 && attempt.result.name == "2xx" && attempt.number == 1)
                #expect(attempt.phases.total > 0 && attempt.messageID == "msg_1")
            }
        }
    }

    @Test func versionsThatComeMeanwhileAreFoldedIntoOne() async throws {
        let gate = Mutex(false)
        try await OriginServer.serving({ request in
            while request.body.hasPrefix("1 "), !gate.withLock({ $0 }) { usleep(1000) }
            return .status(204)
        }) { server in
            try await DeliveryFixture.running { fixture in
                // A machine with much to do must not let the first attempt time out: then there would be two.
                let patient = WebhookLimits(timeout: WebhookLimits.timeoutRange.upperBound)
                let webhook = try fixture.install(fixture.webhook(server.url, limits: patient))
                try fixture.publish()
                try await eventually { server.requests.count == 1 }
                try fixture.publish(5)
                gate.withLock { $0 = true }
                try await fixture.settled(webhook.id)
                #expect(server.requests.map(\.body) == ["1 0 0", "6 1 4"])
            }
        }
    }

    @Test func aFailureIsTriedAgainUnderTheSameName() async throws {
        let count = Mutex(0)
        try await OriginServer.serving({ _ in
            count.withLock { count in
                count += 1
                return .status(count < 4 ? 500 : 200, [], "answer \(count)")
            }
        }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await fixture.settled(webhook.id)
                #expect(Set(server.requests.compactMap { $0.headers["webhook-id"] }) == ["msg_1"])
                let attempts = try fixture.delivery.attempts(of: webhook.id, limit: 10, before: nil).attempts
                #expect(attempts.map(\.number) == [4, 3, 2, 1])
                #expect(attempts.map(\.result.status) == [200, 500, 500, 500])
                #expect(attempts.map { $0.nextAt == nil } == [true, false, false, false])
                #expect(attempts.first?.result.response == "answer 4")
                #expect(try await fixture.delivery.status(of: webhook.id)?.state == .active)
            }
        }
    }

    @Test func anOutageCostsOneDeliveryHoweverMuchWasPublished() async throws {
        let isUp = Mutex(false)
        try await OriginServer.serving({ _ in .status(isUp.withLock { $0 } ? 204 : 503) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish(500)
                try await eventually { server.requests.count > 3 }
                guard case .failing = try await fixture.delivery.status(of: webhook.id)?.state else {
                    Issue.record("not failing")
                    return
                }
                isUp.withLock { $0 = true }
                try await fixture.settled(webhook.id)
                try await eventually { server.versions.last == 500 }
            }
        }
    }

    @Test func whatWasNotAcknowledgedIsSentAfterARestart() async throws {
        let isUp = Mutex(false)
        try await OriginServer.serving({ _ in .status(isUp.withLock { $0 } ? 204 : 500) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish(3)
                try await eventually { server.requests.count > 2 }
                await fixture.end()
                isUp.withLock { $0 = true }
                try fixture.start([webhook])
                try await fixture.settled(webhook.id)
                let sent = server.requests.count
                await fixture.end()
                try fixture.start([webhook])
                #expect(try await fixture.delivery.status(of: webhook.id)?.scopes.first?.lag == 0)
                try fixture.publish()
                try await fixture.settled(webhook.id)
                #expect(server.requests.count == sent + 1)
            }
        }
    }

    @Test func aNewWebhookIsOwedWhatComesAfterIt() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await DeliveryFixture.running { fixture in
                try fixture.publish(5)
                var webhook = try fixture.webhook(server.url)
                webhook = Webhook(
                    id: webhook.id, project: webhook.project, url: webhook.url, limits: webhook.limits,
                    createdAt: .now())
                try fixture.delivery.install(webhook)
                #expect(try await fixture.delivery.status(of: webhook.id)?.scopes.first?.acknowledged == 5)
                try fixture.publish()
                try await fixture.settled(webhook.id)
                #expect(server.requests.map(\.body) == ["6 5 0"])
            }
        }
    }

    @Test(arguments: [10, 700]) func fifoSendsEveryVersionInOrder(count: Int) async throws {
        let failures = Mutex(Set<String>())
        try await OriginServer.serving({ request in
            // Every seventh version fails once.
            let version = Int(request.body.split(separator: " ")[0]) ?? 0
            let isFirst = failures.withLock { $0.insert(request.body).inserted }
            return .status(isFirst && version % 7 == 0 ? 500 : 204)
        }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url, mode: .fifo(onExhaustion: .block)))
                try fixture.publish(count)
                try await fixture.settled(webhook.id)
                var seen: [Int64] = []
                for version in server.versions where seen.last != version { seen.append(version) }
                #expect(seen == Array(1...Int64(count)))
            }
        }
    }

    @Test(arguments: [10, 700]) func allSendsEveryVersionThoughOneIsRefused(count: Int) async throws {
        let refused = Mutex(0)
        try await OriginServer.serving({ request in
            guard request.body.hasPrefix("3 ") else { return .status(204) }
            return refused.withLock { refused in
                refused += 1
                return .status(refused < 5 ? 404 : 204)
            }
        }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url, mode: .all))
                try fixture.publish(count)
                try await fixture.settled(webhook.id)
                #expect(Set(server.versions) == Set(1...Int64(count)))
                #expect(server.requests.count == count + 4)
            }
        }
    }

    @Test func ownerOfAGoneURLIsToldAndEnablingSendsTheNewest() async throws {
        let isGone = Mutex(true)
        try await OriginServer.serving({ request in
            .status(request.target == "/gone" && isGone.withLock { $0 } ? 410 : 204)
        }) { server in
            try await DeliveryFixture.running { fixture in
                let operations = try fixture.install(
                    fixture.webhook(server.url + "/operations", topics: [.webhookOperations]))
                let webhook = try fixture.install(fixture.webhook(server.url + "/gone"))
                try fixture.publish(2)
                try await eventually {
                    guard case .disabled("gone", _) = try await fixture.delivery.status(of: webhook.id)?.state else {
                        return false
                    }
                    return true
                }
                try await eventually { server.requests.contains { $0.body == "webhook.disabled" } }
                #expect(try await fixture.delivery.status(of: operations.id)?.state == .active)
                isGone.withLock { $0 = false }
                #expect(try await fixture.delivery.enable(webhook.id))
                try await fixture.settled(webhook.id)
            }
        }
    }

    @Test func aReceiverCanSwitchItselfOff() async throws {
        try await OriginServer.serving({ _ in .status(200, ["Webhook-Delivery: disable"]) }) { server in
            try await DeliveryFixture.running { fixture in
                let disabled = Mutex<[String]>([])
                try fixture.delivery.onDisabled { webhook, reason in
                    disabled.withLock { $0.append("\(webhook.id) \(reason)") }
                }
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await eventually {
                    let state = try await fixture.delivery.status(of: webhook.id)?.state
                    guard case .disabled("refused_by_receiver", _)? = state else { return false }
                    return true
                }
                try await eventually { disabled.withLock { $0 } == ["\(webhook.id) refused_by_receiver"] }
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test func longFailureDisables() async throws {
        try await OriginServer.serving({ _ in .status(500) }) { server in
            try await DeliveryFixture.running(disableAfter: .milliseconds(100)) { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await eventually {
                    let state = try await fixture.delivery.status(of: webhook.id)?.state
                    guard case .disabled("failing", _)? = state else { return false }
                    return true
                }
                #expect(server.requests.count >= 10)
            }
        }
    }

    @Test func whatIsTooLargeForTheReceiverGoesToTheDeadLettersAndBack() async throws {
        let isStrict = Mutex(true)
        try await OriginServer.serving({ _ in .status(isStrict.withLock { $0 } ? 413 : 204) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url, mode: .all))
                try fixture.publish(3)
                try await eventually {
                    try fixture.delivery.deadLetters(of: webhook.id, limit: 10, after: nil).letters.count == 3
                }
                #expect(server.requests.count == 3)
                isStrict.withLock { $0 = false }
                #expect(try await fixture.delivery.redrive(webhook.id, letter: nil) == 3)
                try await eventually { server.requests.count == 6 }
                #expect(Set(server.versions.suffix(3)) == [1, 2, 3])
                #expect(try fixture.delivery.deadLetters(of: webhook.id, limit: 10, after: nil).letters.isEmpty)
            }
        }
    }

    @Test func retryAfterIsHonoured() async throws {
        let times = Mutex<[ContinuousClock.Instant]>([])
        try await OriginServer.serving({ _ in
            times.withLock { times in
                times.append(.now)
                return times.count == 1 ? .status(429, ["Retry-After: 1"]) : .status(204)
            }
        }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await eventually { server.requests.count >= 1 }
                // A newer version does not shorten the wait.
                try fixture.publish()
                try await fixture.settled(webhook.id)
                let seen = times.withLock { $0 }
                #expect(seen.count >= 2 && seen[1] - seen[0] >= .milliseconds(990))
            }
        }
    }

    @Test func redirectsAreFailuresAndTheirTargetIsShown() async throws {
        try await OriginServer.serving({ _ in .status(301, ["Location: http://169.254.169.254/"]) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await eventually {
                    let attempts = try fixture.delivery.attempts(of: webhook.id, limit: 1, before: nil).attempts
                    return attempts.first?.result.problem?.contains("169.254.169.254") == true
                }
            }
        }
    }

    @Test func aTestTellsHowItWentAndLeavesTheStateAlone() async throws {
        try await OriginServer.serving({ _ in .status(500, [], "no") }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                let attempt = try await fixture.delivery.test(webhook.id)
                #expect(attempt?.result.status == 500 && attempt?.result.response == "no" && attempt?.kind == "test")
                #expect(try await fixture.delivery.status(of: webhook.id)?.state == .active)
            }
        }
    }

    @Test func redeliverAndRecoverSendAgain() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await DeliveryFixture.running { fixture in
                let latest = try fixture.install(fixture.webhook(server.url + "/latest"))
                let all = try fixture.install(fixture.webhook(server.url + "/all", mode: .all))
                try fixture.publish(3)
                try await fixture.settled(latest.id)
                try await fixture.settled(all.id)
                let before = server.requests.count
                let delivery = try fixture.delivery
                #expect(await delivery.redeliver(latest.id, scope: DeliveryFixture.scope, version: nil) == 1)
                #expect(await delivery.redeliver(latest.id, scope: DeliveryFixture.scope, version: 1) == 0)
                #expect(await delivery.redeliver(all.id, scope: DeliveryFixture.scope, version: 2) == 1)
                try await eventually { server.requests.count == before + 2 }
                let again = server.requests.suffix(2)
                #expect(Set(again.map { "\($0.target) \($0.body.prefix(1))" }) == ["/latest 3", "/all 2"])
                #expect(await delivery.recover(all.id, since: Timestamp(microseconds: 0)) == 3)
                try await eventually { server.requests.count == before + 5 }
            }
        }
    }

    /// A restored backup has a history of its own, whose numbers may be lower.
    @Test func cursorsIntoAnotherHistoryAreForgotten() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish(9)
                try await fixture.settled(webhook.id)
                await fixture.end()
                fixture.store.withLock { $0.removeLast(4) }
                fixture.epoch.withLock { $0 = .random() }
                try fixture.start([webhook])
                try await fixture.settled(webhook.id)
                #expect(server.versions.last == 5)
            }
        }
    }

    /// A webhook that waits for its next attempt has none under way.
    @Test func theEndWaitsForNothingButAttemptsUnderWay() async throws {
        try await OriginServer.serving({ _ in .status(500) }) { server in
            let fixture = try DeliveryFixture { $0.pace = DeliveryConfiguration.Pace() }
            try fixture.start([])
            let webhook = try fixture.install(fixture.webhook(server.url))
            try fixture.publish()
            try await eventually { try fixture.attempts(webhook).count >= 1 }
            let hasEnded = Mutex(false)
            Task {
                await fixture.end(grace: .seconds(240))
                hasEnded.withLock { $0 = true }
            }
            try await eventually { hasEnded.withLock { $0 } }
        }
    }

    @Test func aRemovedWebhookIsForgotten() async throws {
        try await OriginServer.serving({ _ in .status(500) }) { server in
            try await DeliveryFixture.running { fixture in
                let webhook = try fixture.install(fixture.webhook(server.url))
                try fixture.publish()
                try await eventually { server.requests.count > 2 }
                try fixture.delivery.remove(webhook.id)
                #expect(try await fixture.delivery.status(of: webhook.id) == nil)
                #expect(try fixture.delivery.attempts(of: webhook.id, limit: 10, before: nil).attempts.isEmpty)
            }
        }
    }
}
