import ArgumentParser
import StalecastWire

struct Sources: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sources",
        abstract: "Show the sources that scopes are fed from, or try them.",
        discussion: """
            Examples:
              stalecast sources
              stalecast sources check --config stalecast.yaml
            """,
        subcommands: [Sources.List.self, Sources.Check.self], defaultSubcommand: Sources.List.self)
}

extension Sources {
    struct List: AsyncParsableCommand, ControlOptions {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "Show the sources of a running daemon: last good look, next one, last change, error.",
            discussion: """
                LAST GOOD is when the running daemon last saw the origin well, NEXT when it is looked at again; LAST CHANGE is the time of \
                the version that is current here.

                Examples:
                  stalecast sources
                  stalecast sources --json \\
                    | jq -r '.sources[] | select(.error) | .error.message'
                """)

        @OptionGroup var connection: ConnectionOptions

        func run() async throws {
            let sources = try await client().send("GET", "/status").json().items("sources")
            try output.list(
                "sources", sources,
                ifNone: "no scope is fed from outside; see `sources` in `stalecast check-config --explain`",
                .left("SCOPE", TopicsReading.scope), .left("KIND") { $0.word("kind") },
                .whole("SERVE") { $0.word("serve") }, .whole("LAST GOOD", lastGood), .whole("NEXT", next),
                .whole("LAST CHANGE") { $0["lastChange"]?.string.map { "\(age($0)) ago, \(clockTime($0))" } ?? "-" },
                .left("ERROR") { $0["error"]?["reason"]?.string ?? "-" }, .extra("PLACE") { $0.word("place") })
            for source in sources where !output.isJSON {
                guard let message = source["error"]?["message"]?.string else { continue }
                try output.line()
                try output.line("\(output.palette.red(TopicsReading.scope(source))): \(message.printable)")
            }
        }

        private func lastGood(_ source: JSONValue) -> String {
            guard source["lastSuccess"] != nil, let age = source["ageSeconds"]?.seconds else {
                return "not since start"
            }
            return "\(seconds(age)) ago"
        }

        private func next(_ source: JSONValue) -> String {
            guard let left = source["nextLookSeconds"]?.seconds else { return "-" }
            return left > .zero ? "in \(seconds(left))" : "now"
        }

        private func seconds(_ time: Duration) -> String {
            time < .seconds(10) ? time.inSeconds : "\(time.components.seconds) s"
        }
    }
}
