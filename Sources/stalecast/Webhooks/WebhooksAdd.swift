import ArgumentParser
import StalecastWire

extension Webhooks {
    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Register a URL and show its secret once.",
            discussion: """
                Requests are signed as Standard Webhooks 1.0.0 says: give the secret to the receiver's library. With \
                --save-secret it goes into a file (mode 0600) instead of onto the terminal.

                Examples:
                  stalecast webhooks add https://example.com/hook
                  stalecast webhooks add https://example.com/hook \\
                    --mode fifo --max-per-second 5 --save-secret hook.secret
                  stalecast webhooks add https://fn.example.com/onConfigUpdated \\
                    --format cloudevents-binary
                  stalecast webhooks add --format fcm --service-account-file push.json
                  stalecast webhooks add https://example.com/hook \\
                    --header 'Authorization: Bearer abc' --verification challenge
                """)

        @Argument(help: "Where requests go; may be left out for --format fcm.")
        var url: String?

        @OptionGroup var settings: WebhookSettingsOptions

        @Flag(help: "Send nothing until it is resumed.")
        var paused = false

        @Option(help: "Algorithm of the new secret: hmac-sha256 (default) or ed25519.")
        var algorithm: String?

        @OptionGroup var secret: WebhookSecretOptions
        @OptionGroup var options: WebhookOptions

        func run() async throws {
            var given = settings.given
            given.set("url", url)
            if paused { given.set("paused", .bool(true)) }
            given.set("signing.algorithm", algorithm)
            given.set("signing.secret", try secret.given())
            let (api, settings) = (try options.api(), given.json)
            try await secret.show("registered", options.output) { () async throws(CommandFailure) in
                try await api.create(settings)
            }
        }
    }

    struct Update: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "update",
            abstract: "Change settings of a webhook; what is not named stays.",
            discussion: """
                Lists (--topic, --header) replace what was there. --reset puts a setting back to its default.

                Examples:
                  stalecast webhooks update wh_4n3xqv7pqk2yb6l5m7ta \\
                    --url https://example.com/new --timeout 30s
                  stalecast webhooks update wh_4n3xqv7pqk2yb6l5m7ta \\
                    --topic PUSH_RC --topic stalecast.webhooks
                  stalecast webhooks update wh_4n3xqv7pqk2yb6l5m7ta \\
                    --reset limits.maxPerSecond --reset headers
                """)

        @OptionGroup var target: WebhookTarget

        @Option(help: "Where requests go.")
        var url: String?

        @OptionGroup var settings: WebhookSettingsOptions

        @Option(
            name: .customLong("reset"),
            help: .value("path", "Setting to put back to its default, as the API names it; repeatable."))
        var resets: [String] = []

        @OptionGroup var options: WebhookOptions

        func run() async throws {
            var given = settings.given
            given.set("url", url)
            for path in resets { given.reset(path) }
            if given.paths.isEmpty { throw CommandFailure(.usage, "nothing to change was named; see --help") }
            let webhook = try await options.api().update(target.id, given.json, mask: given.paths)
            try WebhookReport(webhook).write("updated", options.output)
        }
    }
}
