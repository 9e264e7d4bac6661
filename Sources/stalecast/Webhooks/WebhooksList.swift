import ArgumentParser
import StalecastWire

extension Webhooks {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the webhooks of a project, oldest first.",
            discussion: """
                LAG is how many messages the receiver is owed: one for each version that it does not have, in mode latest \
                one for each namespace that it is behind in. \
                PROBLEM is why the last attempt of a webhook that fails did not succeed.

                Examples:
                  stalecast webhooks list
                  stalecast webhooks list --json \\
                    | jq -r '.webhooks[] | select(.state.name == "failing") | .id'
                """)

        @OptionGroup var options: WebhookOptions

        func run() async throws {
            try options.output.list(
                "webhooks", try await options.api().list(),
                ifNone: "no webhooks yet; try `stalecast webhooks add https://…`",
                .id("ID") { $0.word("id") }, .left("STATE") { WebhookStateText($0["state"]).plain },
                .right("LAG", lag),
                .place("URL") { $0.word("url") }, .extra("PROBLEM", problem),
                .extra("ABOUT") { $0["configuredAs"]?.string ?? $0.word("description", "") },
                .extra("TOPICS") { $0.words("topics").joined(separator: ",") },
                .whole("FORMAT") { $0.word("format") }, .whole("MODE") { $0.word("mode") })
        }

        private func lag(_ webhook: JSONValue) -> String {
            let scopes = webhook["delivery"]?.items("scopes") ?? []
            return String(scopes.reduce(0) { $0 + WebhookReport.owed($1, by: webhook) })
        }

        private func problem(_ webhook: JSONValue) -> String {
            guard ["failing", "disabled"].contains(webhook["state"]?["name"]?.string),
                let failure = webhook["delivery"]?["lastFailure"]
            else { return "" }
            return WebhookAttemptText(failure).outcome
        }
    }

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
            try WebhookReport(try await options.api().get(target.id)).write(nil, options.output)
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove a webhook and everything owed to it.",
            discussion: """
                `stalecast webhooks pause` stops one and keeps what is owed.

                Example:
                  stalecast webhooks remove wh_4n3xqv7pqk2yb6l5m7ta
                """)

        @OptionGroup var agreement: YesOption
        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            let (api, id) = (try options.api(), target.id)
            let place = options.connection.place(of: api.client)
            try agreement.ask("Remove \(id) and all it is owed, of \(api.project) \(place)?", options.output)
            try await api.delete(id)
            try options.output.show(["id": .string(id), "removed": true], ["removed \(id)"])
        }
    }
}
