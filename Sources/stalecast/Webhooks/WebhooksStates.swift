import ArgumentParser
import StalecastWebhooks
import StalecastWire

extension Webhooks {
    struct Pause: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "pause",
            abstract: "Send nothing more until it is resumed; what is owed stays owed.",
            discussion: "Example:\n  stalecast webhooks pause wh_4n3xqv7pqk2yb6l5m7ta")

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws { try await options.change(target, "pause", "paused") }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "resume",
            abstract: "End a pause; the newest version goes out at once.",
            discussion: "Example:\n  stalecast webhooks resume wh_4n3xqv7pqk2yb6l5m7ta")

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws { try await options.change(target, "resume", "resumed") }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "enable",
            abstract: "Enable a webhook that was disabled because it failed for long.",
            discussion: """
                The newest version goes out at once, whatever was missed meanwhile.

                Example:
                  stalecast webhooks enable wh_4n3xqv7pqk2yb6l5m7ta
                """)

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws { try await options.change(target, "enable", "enabled") }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify",
            abstract: "Ask the receiver for its consent now.",
            discussion: """
                For webhooks with --verification challenge or cloudevents. The daemon asks by itself after `add` and after a \
                change of the URL.

                Example:
                  stalecast webhooks verify wh_4n3xqv7pqk2yb6l5m7ta
                """)

        @OptionGroup var target: WebhookTarget
        @OptionGroup var options: WebhookOptions

        func run() async throws { try await options.change(target, "verify", "verified") }
    }

    struct RotateSecret: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate-secret",
            abstract: "Make a new secret and show it once; the old one goes on signing for a while.",
            discussion: """
                Until the grace period is over every request carries a signature of each key, so that the receiver can \
                change over at any time within it.

                Examples:
                  stalecast webhooks rotate-secret wh_4n3xqv7pqk2yb6l5m7ta
                  stalecast webhooks rotate-secret wh_4n3xqv7pqk2yb6l5m7ta \\
                    --grace-period 0s  # the old one leaked
                  stalecast webhooks rotate-secret wh_4n3xqv7pqk2yb6l5m7ta \\
                    --algorithm ed25519 --save-secret new.secret
                """)

        @OptionGroup var target: WebhookTarget

        @Option(help: .value("time", "How long the old secret goes on signing, 0s to 7d."))
        var gracePeriod = Span(.seconds(86_400))

        @Option(help: "hmac-sha256 or ed25519 (default: as before).")
        var algorithm: String?

        @OptionGroup var secret: WebhookSecretOptions
        @OptionGroup var options: WebhookOptions

        func validate() throws {
            if gracePeriod.duration > .seconds(7 * 86_400) { throw ValidationError("--grace-period is 0s to 7d") }
        }

        func run() async throws {
            var request = WebhookSettings()
            request.set("gracePeriod", gracePeriod.duration.wireText)
            request.set("algorithm", algorithm)
            request.set("secret", try secret.given())
            let (api, body) = (try options.api(), request.json)
            try await secret.show("new secret for", options.output) { () async throws(CommandFailure) in
                try await api.act(target.id, "rotateSecret", body)
            }
        }
    }
}
