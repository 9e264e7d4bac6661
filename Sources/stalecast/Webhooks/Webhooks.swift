import ArgumentParser

struct Webhooks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
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
            Webhooks.Add.self, Webhooks.List.self, Webhooks.Show.self, Webhooks.Update.self, Webhooks.Remove.self,
            Webhooks.Pause.self, Webhooks.Resume.self, Webhooks.Enable.self, Webhooks.Verify.self, Webhooks.Test.self,
            Webhooks.RotateSecret.self, Webhooks.Attempts.self, Webhooks.Redeliver.self, Webhooks.Recover.self,
            Webhooks.DeadLetters.self, Webhooks.Redrive.self, Webhooks.NewSecret.self, Webhooks.Sign.self,
            Webhooks.CheckSignature.self, Webhooks.Listen.self,
        ])
}
