import Foundation
import Logging
import StalecastHub
import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

/// Tests how hostile and polite answers are taken.
@Suite struct DeliveryOutcomeTests {
    @Test func aRedirectIsAFailureAndItsTargetIsNotAsked() async throws {
        try await OriginServer.serving({ _ in .status(200) }) { elsewhere in
            try await OriginServer.serving({ _ in .status(301, ["Location: \(elsewhere.url)/secret"]) }) { server in
                let webhook = try DeliveryFixture.webhook(server.url)
                try await DeliveryFixture().run([webhook]) { fixture in
                    try fixture.publish()
                    try await eventually { server.requests.count >= 3 }
                    let attempt = try #require(try fixture.attempts(webhook).first)
                    #expect(attempt.result.status == 301 && attempt.result.name == "3xx")
                    #expect(attempt.result.problem?.contains("\(elsewhere.url)/secret") == true)
                    #expect(elsewhere.connections == 0)
                }
            }
        }
    }

    @Test func theStatusSaysWhyTheLastAttemptFailed() async throws {
        let isWell = Gate()
        let answer = "database is locked " + String(repeating: "x", count: 1000)
        try await OriginServer.serving({ _ in
            isWell.isOpen
                ? .status(200)
                : .raw("HTTP/1.1 500 No\r\nContent-Length: \(answer.utf8.count)\r\n\r\n\(answer)")
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            try await DeliveryFixture().run([webhook]) { fixture in
                func failure() async throws -> JSONValue? {
                    try await fixture.delivery.status(of: webhook.id)?.json["lastFailure"]
                }
                #expect(try await failure() == nil)
                try fixture.publish(3)
                try await eventually { try await failure() != nil }
                let first = try #require(try await failure())
                #expect(first["outcome"]?.string == "5xx" && first["status"]?.int64 == 500)
                #expect(first["response"]?.string == String(answer.prefix(200)) && first["time"]?.string != nil)
                let scope = try #require(await fixture.delivery.status(of: webhook.id)?.scopes.first)
                #expect(scope.lag > 1 && scope.owed == 1, "one message stands for all")
                isWell.open()
                try await eventually { try await fixture.isDone(webhook) }
                // Another receiver has not failed.
                var moved = webhook
                moved.url = try OutboundURL("\(server.url)/other")
                try fixture.delivery.install(moved)
                try await eventually { try await failure() == nil }
            }
        }
    }

    /// Logs one line, however many attempts there are.
    @Test func theLogHasALineWhenAttemptsBeginToFailAndWhenTheySucceedAgain() throws {
        let webhook = try DeliveryFixture.webhook("http://secret.example/token")
        let route = TopicBinding(name: .pushRC, scopes: [DeliveryFixture.scope])
        var state = DeliveryState(DeliveryConfiguration(path: ""), routes: [route], random: SeededRandom(seed: 1))
        var now = Moment(monotonic: 1, wall: .now())
        let stage = try DeliveryFixture()
        state.begin([webhook], [], DeliveryImage(), opened: now.wall, at: now)
        state.announced(stage.commit(), at: 1)
        var lines: [String] = []
        for conclusion in [AttemptConclusion.failed(.backoff), .failed(.backoff), .failed(.backoff), .delivered] {
            var started: DeliveryState.Attempt?
            while started == nil {
                now.monotonic += 600_000_000_000
                state.tick(at: now)
                for case .start(let attempt) in state.takeActions() { started = attempt }
            }
            let attempt = try #require(started)
            _ = state.finished(attempt.id, conclusion, AttemptResult(status: 500, name: "5xx"), at: now)
            for case .log(_, let message, let metadata) in state.takeActions() {
                lines.append("\(message)")
                #expect(metadata["host"] == "secret.example" && !"\(metadata)".contains("token"))
            }
        }
        #expect(lines == ["a webhook's attempts fail", "a webhook's attempts succeed again"])
    }

    @Test func goneTwiceDisablesAndEnablingSendsTheNewest() async throws {
        let isBack = Gate()
        try await OriginServer.serving({ _ in .status(isBack.isOpen ? 200 : 410) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            let stage = try DeliveryFixture()
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.state(webhook)?.name == "disabled" }
                guard case .disabled("gone", _) = try await fixture.state(webhook) else {
                    Issue.record("the reason is not the receiver's word")
                    return
                }
                #expect(server.requests.count == 2, "one 410 may be a bad deployment, a third is not asked for")
                try fixture.publish(3)
            }
            isBack.open()
            try await stage.run([webhook]) { fixture in
                #expect(try await fixture.state(webhook)?.name == "disabled", "disablement survives a restart")
                #expect(try await fixture.delivery.enable(webhook.id))
                try await eventually { try await fixture.isDone(webhook) }
                #expect(server.versions == [1, 1, 4])
                #expect(try await fixture.state(webhook) == .active)
            }
        }
    }

    @Test(arguments: [413, 415])
    func aVersionThatWillNeverBeTakenIsADeadLetterAtOnce(status: Int) async throws {
        try await OriginServer.serving({ .status($0.version == 1 ? status : 200) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try fixture.deadLetters(webhook).count == 1 }
                let letter = try #require(try fixture.deadLetters(webhook).first)
                #expect(letter.version == 1 && letter.reason == "rejected" && letter.lastStatus == status)
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                #expect(server.versions == [1, 2])
            }
        }
    }

    @Test(arguments: [429, 502, 503, 504])
    func aRequestToWaitIsHonoured(status: Int) async throws {
        let count = Counter()
        try await OriginServer.serving({ _ in
            count.next() == 1 ? .status(status, ["Retry-After: 1"]) : .status(200)
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                let attempts = try fixture.attempts(webhook)
                try #require(attempts.count == 2)
                #expect(attempts[1].startedAt.microseconds - attempts[0].startedAt.microseconds >= 1_000_000)
                let next = try #require(attempts[0].nextAt)
                #expect(next.microseconds - attempts[0].startedAt.microseconds >= 1_000_000)
            }
        }
    }

    @Test func aDateToWaitForIsHonouredAndAnAbsurdOneIsNot() async throws {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(secondsFromGMT: 0)
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        let date = format.string(from: Date(timeIntervalSinceNow: 120))
        let answers = ["/date": date, "/absurd": "99999999999999999999"]
        try await OriginServer.serving({ .status(503, ["Retry-After: \(answers[$0.target] ?? "")"]) }) { server in
            for (path, range) in [("/date", 60...125), ("/absurd", 3590...3605)] {
                let webhook = try DeliveryFixture.webhook(server.url + path)
                try await DeliveryFixture().run([webhook]) { fixture in
                    try fixture.publish()
                    try await eventually { try !fixture.attempts(webhook).isEmpty }
                    let attempt = try #require(try fixture.attempts(webhook).first)
                    let wait = try #require(attempt.nextAt).microseconds - attempt.startedAt.microseconds
                    #expect(range.contains(Int(wait / 1_000_000)), "waits \(wait) µs after \(path)")
                    #expect(
                        try await fixture.state(webhook) == .active, "a receiver that asks for patience does not fail")
                }
            }
        }
    }

    @Test func aReceiverThatHangsIsGivenUpAndAskedAgain() async throws {
        let count = Counter()
        try await OriginServer.serving({ _ in
            guard count.next() == 1 else { return .status(200) }
            return OriginServer.Reply(bytes: [], hangs: true)
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, limits: WebhookLimits(timeout: .milliseconds(300)))
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                #expect(try fixture.attempts(webhook).map(\.result.name) == ["timeout_response", "2xx"])
            }
        }
    }

    @Test func anEndlessAnswerIsCutAndItsStatusCounts() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n"
        try await OriginServer.serving({ _ in
            OriginServer.Reply(bytes: Array(head.utf8), flood: 100 << 20)
        }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                let attempt = try #require(try fixture.attempts(webhook).first)
                let result = attempt.result
                #expect(result.status == 200 && result.response.utf8.count <= AttemptResult.maxResponseBytes)
                #expect(server.flooded < 100 << 20)
            }
        }
    }

    @Test(arguments: ["", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 banana\r\n\r\n"])
    func whatIsNoAnswerIsAFailure(garbage: String) async throws {
        let count = Counter()
        try await OriginServer.serving({ _ in count.next() <= 2 ? .raw(garbage) : .status(200) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                let attempts = try fixture.attempts(webhook)
                #expect(attempts.last?.result.status == 200 && attempts.count >= 2)
                #expect(attempts.dropLast().allSatisfy { !(200..<300).contains($0.result.status ?? 0) })
            }
        }
    }

    @Test func anOwnerCannotTellAClosedPortFromABlockedOne() async throws {
        let webhooks = [
            try DeliveryFixture.webhook("http://127.0.0.1:\(ClosedPort.shared.port)/"),
            try DeliveryFixture.webhook("http://169.254.169.254/latest"),
        ]
        try await DeliveryFixture().run(webhooks) { fixture in
            try fixture.publish()
            for webhook in webhooks {
                try await eventually { try fixture.attempts(webhook).count >= 2 }
                try await eventually { try await fixture.state(webhook)?.name == "failing" }
            }
            let seen = try webhooks.map { webhook in
                Set(
                    try fixture.attempts(webhook).map(\.result).map { "\($0.name) \($0.problem ?? "") \($0.response)" })
            }
            #expect(seen[0] == seen[1] && seen[0].count == 1)
        }
    }
}
