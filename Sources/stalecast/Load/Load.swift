import ArgumentParser

struct Load: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Measure a daemon under many subscribers or webhooks.",
        discussion: """
            The subscribers are real connections to Edge, from several source addresses when it is on loopback. On one \
            machine with the daemon the load takes CPU from it: every report says how much.

            Examples:
              stalecast load fanout --subscribers 10000
              stalecast load webhooks --receivers 1000
              stalecast load connect --subscribers 10000 --repeat 5
              stalecast load idle --subscribers 10000 --duration 60s

            Ctrl-C ends a load early: what was measured so far is printed, the exit code is 130.
            """,
        subcommands: [LoadFanout.self, LoadWebhooks.self, LoadConnect.self, LoadIdle.self])
}
