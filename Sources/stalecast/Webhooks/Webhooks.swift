import ArgumentParser

/// `stalecast webhooks`: URLs that are told of every new version.
struct Webhooks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Register URLs that are told of every new version, and look after them.",
        discussion: """
            Every webhook gets at least one signed request for the newest version, through outages and restarts. Only \
            public addresses are called; the operator allows others with webhooks.allowedAddresses.

            Examples:
              stalecast webhooks add https://example.com/hook
              stalecast webhooks list
              stalecast webhooks test wh_4n3xqv7pqk2yb6l5m7ta
              stalecast webhooks attempts wh_4n3xqv7pqk2yb6l5m7ta
              stalecast webhooks rotate-secret wh_4n3xqv7pqk2yb6l5m7ta --grace-period 2d

            Exit codes are those of every command: 6 when there is no such webhook.
            """,
        subcommands: [
            WebhooksAdd.self, WebhooksList.self, WebhooksShow.self, WebhooksUpdate.self, WebhooksRemove.self,
            WebhooksPause.self, WebhooksResume.self, WebhooksEnable.self, WebhooksVerify.self, WebhooksTest.self,
            WebhooksRotateSecret.self, WebhooksAttempts.self, WebhooksRedeliver.self, WebhooksRecover.self,
            WebhooksDeadLetters.self, WebhooksRedrive.self, WebhooksNewSecret.self, WebhooksSign.self,
            WebhooksCheckSignature.self, WebhooksListen.self,
        ])
}
