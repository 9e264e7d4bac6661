import ArgumentParser
import StalecastWire

struct ClusterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster",
        abstract: "Look after daemons that share one history in etcd.",
        discussion: """
            Examples:
              stalecast cluster status
            """, subcommands: [ClusterCommand.Status.self, ClusterCommand.Upgrade.self, ClusterCommand.NewEpoch.self])
}

extension ClusterCommand {
    struct Status: AsyncParsableCommand, ControlOptions {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show the cluster as one node sees it: its log, etcd's members, the other nodes.",
            discussion: """
                The exit code is 0 when this node is ready, 1 when it is not, 6 when the daemon is one by itself.

                Examples:
                  stalecast cluster status
                  stalecast cluster status --control http://10.0.0.2:8081
                  stalecast cluster status --json | jq '.nodes[].head'
                """)

        @OptionGroup var connection: ConnectionOptions

        func run() async throws {
            let status = try await client().send("GET", "/v1/cluster").json()
            try output.show(status, ClusterReading(status).lines(output.palette))
            if status["ready"]?.bool == false { throw ExitCode(ExitStatus.refused.rawValue) }
        }
    }

    struct Upgrade: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "upgrade",
            abstract: "Raise the log's format to that of the node's program; older programs are refused from then on.",
            discussion: """
                After a rolling upgrade, when every node runs the new program. There is no way back but a backup.

                Examples:
                  stalecast cluster status
                  stalecast cluster upgrade --yes
                """)

        @OptionGroup var change: ChangeOptions

        func run() async throws {
            let rules = try await change.send(
                "upgrade", "Programs older than the one that is asked are refused from then on. Upgrade?")
            let version = rules["minimumVersion"]?.int64.map(String.init) ?? "?"
            try change.output.show(rules, ["nodes need format \(version) from now on"])
        }
    }

    struct NewEpoch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "new-epoch",
            abstract: "Begin a new history: every node reads the log anew, every client is told to (reset).",
            discussion: """
                For when etcd was restored or changed by hand and nodes do not notice it by themselves. Versions stay as etcd \
                has them; cursors of before are answered with a reset, so that every client hears the current state anew.

                Examples:
                  stalecast cluster new-epoch
                  stalecast cluster new-epoch --yes --json | jq -r .epoch
                """)

        @OptionGroup var change: ChangeOptions

        func run() async throws {
            let rules = try await change.send(
                "newEpoch", "All clients of all nodes hear the current state anew. Go on?")
            let sentence = "a new history begins, epoch \(rules.word("epoch").printable)"
            try change.output.show(rules, [sentence])
        }
    }

    struct ChangeOptions: ParsableArguments, ControlOptions {
        @OptionGroup var agreement: YesOption

        @OptionGroup var connection: ConnectionOptions

        /// The log's rules afterwards.
        func send(_ action: String, _ question: String) async throws(CommandFailure) -> JSONValue {
            let client = try client()
            try agreement.ask(question, output)
            return try await client.send("POST", "/v1/cluster:\(action)", body: [:], changes: true).json()
        }
    }
}
