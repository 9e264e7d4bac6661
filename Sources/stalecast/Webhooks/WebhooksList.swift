import ArgumentParser
import StalecastWire

extension Webhooks {
    /// `stalecast webhooks list`: all of a project.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the webhooks of a project, oldest first.",
            discussion: """
                LAG is how many versions the receiver is behind, over all namespaces; in mode latest they are one message. \
                PROBLEM is why the last attempt of a webhook that fails did not succeed.

                Examples:
                  stalecast webhooks list
                  stalecast webhooks list --json \\
                    | jq -r '.webhooks[] | select(.state.name == "failing") | .id'
                """)

        @OptionGroup var options: WebhookOptions

        func run() async throws {
            let webhooks = try await options.api().list()
            let output = options.outputOptions.output
            if output.isJSON { return try output.json(["webhooks": .array(webhooks)]) }
            if webhooks.isEmpty { return output.remark("no webhooks yet; try `stalecast webhooks add https://…`") }
            for line in table(webhooks).lines(output.palette) { try output.line(line) }
        }

        private func table(_ webhooks: [JSONValue]) -> TextTable {
            var table = TextTable(
                .id("ID"), .left("STATE"), .right("LAG"), .place("URL"), .extra("PROBLEM"), .extra("ABOUT"),
                .extra("TOPICS"), .whole("FORMAT"), .whole("MODE"))
            for webhook in webhooks {
                let lag = (webhook["delivery"]?["scopes"]?.array ?? []).compactMap { $0["lag"]?.int64 }.reduce(0, +)
                table.add(
                    webhook["id"]?.string ?? "?", WebhookStateText(webhook["state"]).plain, String(lag),
                    webhook["url"]?.string ?? "?", problem(webhook),
                    webhook["configuredAs"]?.string ?? webhook["description"]?.string ?? "",
                    (webhook["topics"]?.array ?? []).compactMap(\.string).joined(separator: ","),
                    webhook["format"]?.string ?? "?", webhook["mode"]?.string ?? "?")
            }
            return table
        }

        private func problem(_ webhook: JSONValue) -> String {
            guard ["failing", "disabled"].contains(webhook["state"]?["name"]?.string),
                let failure = webhook["delivery"]?["lastFailure"]
            else { return "" }
            return WebhookAttemptText(failure).outcome
        }
    }

    /// `stalecast webhooks show`: one.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show a webhook, its state, and what is owed to it.",
            discussion: """
                Examples:
                  stalecast webhooks show wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks show wh_4n3xqv7pqk2yb6l5m7ta --json | jq .delivery
                """)

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            try WebhookReport(try await options.api().get(target.id)).write(nil, options.outputOptions.output)
        }
    }

    /// `stalecast webhooks remove`: for good.
    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove a webhook and everything owed to it.",
            discussion: """
                `stalecast webhooks pause` stops one and keeps what is owed.

                Example:
                  stalecast webhooks remove wh_4n3xqv7pqk2yb6l5m7ta
                """)

        @Flag(name: .shortAndLong, help: "Remove it without the question that a terminal is asked.")
        var yes = false

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            let api = try options.api()
            if Question.canBeAsked, !yes, !options.outputOptions.json {
                let place = options.connection.place(of: api.client)
                try Question("Remove \(target.id) and all it is owed, of \(api.project) \(place)?").agree()
            }
            try await api.delete(target.id)
            let output = options.outputOptions.output
            if output.isJSON { return try output.json(["id": .string(target.id), "removed": .bool(true)]) }
            try output.line("removed \(target.id)")
        }
    }
}
