import ArgumentParser
import StalecastWire

extension Webhooks {
    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "test",
            abstract: "Send a test message now and show how it went.",
            discussion: """
                Exit codes: 0 the receiver took it, 1 it did not; the others as for every command.

                Examples:
                  stalecast webhooks test wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks test wh_4n3xqv7pqk2yb6l5m7ta --json \\
                    | jq .attempt.phasesMs
                """)

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            let answer = try await options.api().act(target.id, "test")
            let attempt = WebhookAttemptText(answer["attempt"] ?? .null)
            try options.output.show(answer, attempt.page)
            guard attempt.isSuccess else {
                throw CommandFailure(.refused, "the receiver did not take the test message: \(attempt.outcome)")
            }
        }
    }

    struct Attempts: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "attempts",
            abstract: "List what was tried, newest first, with the time each phase took.",
            discussion: """
                Examples:
                  stalecast webhooks attempts wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks attempts wh_4n3xqv7pqk2yb6l5m7ta --limit 1 --json \\
                    | jq -r '.attempts[0].response'
                """)

        @OptionGroup var target: WebhookTarget
        @OptionGroup var limit: LimitOption
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            let api = try options.api()
            let (attempts, hasMore) = try await api.list("attempts", of: target.id, limit: limit.limit)
            let output = options.output
            if output.isJSON { return try output.json(["attempts": .array(attempts)]) }
            if attempts.isEmpty { return output.remark("nothing was tried yet") }
            let mode = try await api.get(target.id)["mode"]?.string
            try output.lines(table(attempts, mode).lines(output.palette))
            if hasMore { output.remark("there are more; see --limit") }
        }

        private func table(_ attempts: [JSONValue], _ mode: String?) -> TextTable {
            let now = Timestamp.now()
            let cells = attempts.enumerated().map { index, attempt in
                let text = WebhookAttemptText(attempt)
                return [
                    attempt.time("startTime"), age(attempt.word("startTime", "")), attempt.word("kind", ""),
                    text.version, attempt.digits("attempt"), text.outcome, text.milliseconds,
                    text.nextTry(after: attempts[..<index], mode: mode, now: now),
                ]
            }
            return TextTable(
                [
                    .whole("TIME"), .right("AGE"), .extra("KIND"), .left("VERSION"), .right("TRY"), .left("OUTCOME"),
                    .right("MS"), .whole("NEXT TRY"),
                ], cells: cells)
        }
    }

    struct Redeliver: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "redeliver",
            abstract: "Send a version once more, the newest unless another is named.",
            discussion: """
                Examples:
                  stalecast webhooks redeliver wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks redeliver wh_4n3xqv7pqk2yb6l5m7ta \\
                    --version-number 7 --namespace firebase
                """)

        @OptionGroup var target: WebhookTarget

        @Option(help: .value("number", "The version to send (default: the newest)."), completion: .versionNumbers)
        var versionNumber: Int64?

        @Option(help: .value("name", "Namespace: firebase (client) or firebase-server."), completion: .namespaces)
        var namespace = "firebase"

        @OptionGroup var options: WebhookOptions

        func validate() throws {
            if let versionNumber, versionNumber < 1 { throw ValidationError("--version-number is 1 or more") }
        }

        func run() async throws {
            var request = WebhookSettings()
            request.set("namespace", namespace)
            request.set("versionNumber", versionNumber.map { String($0) })
            try await options.owe(target, "redeliver", request.json)
        }
    }

    struct Recover: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "recover",
            abstract: "Deliver again what was published since a time.",
            discussion: """
                A webhook of mode latest gets the newest version once; all and fifo get every version since then.

                Examples:
                  stalecast webhooks recover wh_4n3xqv7pqk2yb6l5m7ta \\
                    --since 2026-11-20T08:00:00Z
                  stalecast webhooks recover wh_4n3xqv7pqk2yb6l5m7ta --since 2h
                """)

        @OptionGroup var target: WebhookTarget

        @Option(help: .value("time", "A time such as 2026-11-20T08:00:00Z, or how long ago: 30m, 2h, 3d."))
        var since: PastTime

        @OptionGroup var options: WebhookOptions

        func run() async throws {
            try await options.owe(target, "recover", ["since": .string(since.time.description)])
        }
    }

    struct DeadLetters: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "dead-letters",
            abstract: "List the messages that were given up, oldest first.",
            discussion: """
                Only modes all, fifo and fifo-advance give messages up; latest keeps trying the newest version.

                Examples:
                  stalecast webhooks dead-letters wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks redrive wh_4n3xqv7pqk2yb6l5m7ta  # all of them again
                """)

        @OptionGroup var target: WebhookTarget
        @OptionGroup var limit: LimitOption
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            let (letters, hasMore) = try await options.api().list("deadLetters", of: target.id, limit: limit.limit)
            try options.output.list(
                "deadLetters", letters, ifNone: "nothing was given up", hasMore: hasMore,
                .id("ID") { $0.word("id") }, .whole("GIVEN UP") { $0.time("moveTime") },
                .whole("NAMESPACE") { $0.word("namespace", "") }, .right("VERSION") { $0.word("versionNumber", "") },
                .right("TRIES") { $0.digits("attempts") }, .left("REASON") { $0.word("reason", "") })
        }
    }

    struct Redrive: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "redrive",
            abstract: "Send dead letters again, all or one.",
            discussion: """
                Examples:
                  stalecast webhooks redrive wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks redrive wh_4n3xqv7pqk2yb6l5m7ta --letter 42
                """)

        @OptionGroup var target: WebhookTarget

        @Option(help: .value("id", "One of `dead-letters` (default: all)."))
        var letter: String?

        @OptionGroup var options: WebhookOptions

        func run() async throws {
            try await options.owe(target, "redrive", letter.map { ["id": .string($0)] } ?? [:])
        }
    }
}
