import ArgumentParser
import StalecastWire

/// `stalecast webhooks list`: all of a project.
struct WebhooksList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the webhooks of a project, oldest first.",
        discussion: """
            LAG is how many versions the receiver is behind, over all namespaces.

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
            .left("ID"), .left("STATE"), .right("LAG"), .left("FORMAT"), .left("MODE"), .left("TOPICS"), .left("URL"),
            .left("ABOUT"))
        for webhook in webhooks {
            let lag = (webhook["delivery"]?["scopes"]?.array ?? []).compactMap { $0["lag"]?.int64 }.reduce(0, +)
            table.add(
                webhook["id"]?.string ?? "?", WebhookStateText(webhook["state"]).plain, String(lag),
                webhook["format"]?.string ?? "?", webhook["mode"]?.string ?? "?",
                (webhook["topics"]?.array ?? []).compactMap(\.string).joined(separator: ","),
                webhook["url"]?.string ?? "?",
                webhook["configuredAs"]?.string ?? webhook["description"]?.string ?? "")
        }
        return table
    }
}

/// `stalecast webhooks show`: one.
struct WebhooksShow: AsyncParsableCommand {
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
struct WebhooksRemove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a webhook and everything owed to it.",
        discussion: """
            `stalecast webhooks pause` stops one and keeps what is owed.

            Example:
              stalecast webhooks remove wh_4n3xqv7pqk2yb6l5m7ta
            """)

    @OptionGroup var target: WebhookTarget
    @OptionGroup var options: WebhookOptions

    func run() async throws {
        try await options.api().delete(target.id)
        let output = options.outputOptions.output
        if output.isJSON { return try output.json(["id": .string(target.id), "removed": .bool(true)]) }
        try output.line("removed \(target.id)")
    }
}
