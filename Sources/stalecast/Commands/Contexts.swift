import ArgumentParser
import Foundation
import StalecastWire

struct Contexts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "context",
        abstract: "Keep daemons by name: where they are and what opens them.",
        discussion: """
            A context is an address, the file with its token, and a scope. The one in use counts wherever no flag and no \
            variable says otherwise; --context NAME takes another one for one command. They are kept in \
            $XDG_CONFIG_HOME/stalecast/contexts.json (mode 0600), tokens by the names of their files.

            Examples:
              stalecast context add prod --control https://config.example.org \\
                --token-file ~/.config/stalecast/prod.token
              stalecast context use prod
              stalecast status --context staging
            """,
        subcommands: [Contexts.List.self, Contexts.Add.self, Contexts.Use.self, Contexts.Remove.self],
        defaultSubcommand: Contexts.List.self)

    static func change(
        _ options: OutputOptions, _ said: String, _ body: (inout ContextFile) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        let environment = ProcessInfo.processInfo.environment
        var file = try ContextFile.load(environment)
        try body(&file)
        try file.store(environment)
        try options.output.show(file.json, [said])
    }
}

extension ContextFile {
    /// - Throws: ``CommandFailure`` `notFound` for one that is not there.
    func check(_ name: String) throws(CommandFailure) {
        guard contexts[name] == nil else { return }
        throw CommandFailure(
            .notFound, "there is no context \"\(name)\"", advice: "`stalecast context list` shows those that are.")
    }
}

extension Contexts {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the contexts; the one in use has a star.",
            discussion: """
                Examples:
                  stalecast context list
                  stalecast context list --json | jq -r .current
                """)

        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let file = try ContextFile.load(ProcessInfo.processInfo.environment)
            let output = outputOptions.output
            if output.isJSON { return try output.json(file.json) }
            if file.contexts.isEmpty {
                return output.remark("no context yet; `stalecast context add NAME --control URL --token-file FILE`")
            }
            let cells = file.contexts.sorted { $0.key < $1.key }.map { name, fields in
                let place = fields[.control] ?? fields[.data].map { "data in \($0)" } ?? ""
                let scope = "\(fields[.project] ?? "demo")/\(fields[.namespace] ?? "firebase")"
                let star = name == file.current ? "*" : ""
                return [star, name, place, fields[.edge] ?? "", scope, fields[.tokenFile] ?? ""]
            }
            let titles = ["", "NAME", "CONTROL", "EDGE", "SCOPE", "TOKEN FILE"]
            try output.lines(TextTable(titles.map { .left($0) }, cells: cells).lines(output.palette))
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Add a context, or change what is given of one that is there.",
            discussion: """
                The first one is in use at once.

                Examples:
                  stalecast context add here --data ./stalecast-data
                  stalecast context add prod --control https://config.example.org \\
                    --edge https://edge.example.org --token-file prod.token
                  stalecast context add prod --project shop
                """)

        @Argument(help: "Letters, digits and . _ -; at most 64.")
        var name: String

        @Option(help: .value("url", "Address of Control."))
        var control: String?

        @Option(help: .value("url", "Address of Edge, for `watch` and `load`."))
        var edge: String?

        @Option(help: .value("file", "File with the control token."), completion: .file())
        var tokenFile: String?

        @Option(help: .value("file", "PEM file of the authorities trusted for https."), completion: .file())
        var caFile: String?

        @Option(
            help: .value("dir", "A daemon's data directory on this machine, instead of addresses."),
            completion: .directory)
        var data: String?

        @Option(help: .value("id", "Project, by id or number."))
        var project: String?

        @Option(help: .value("name", "Namespace."), completion: .namespaces)
        var namespace: String?

        @OptionGroup var outputOptions: OutputOptions

        func validate() throws {
            let isName = name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._-".utf8.contains($0) }
            guard isName, (1...64).contains(name.utf8.count) else {
                throw ValidationError("\"\(name)\" is no name: letters, digits and . _ -, at most 64")
            }
        }

        func run() async throws {
            for address in [control, edge].compactMap(\.self) { _ = try ServerAddress(address, from: "context add") }
            let fields = [
                (PlaceField.control, control), (.edge, edge), (.tokenFile, tokenFile.map(Self.absolute)),
                (.caFile, caFile.map(Self.absolute)), (.data, data.map(Self.absolute)), (.project, project),
                (.namespace, namespace),
            ]
            try Contexts.change(outputOptions, "context \(name) is kept") { file throws(CommandFailure) in
                for case (let field, let value?) in fields { file.contexts[name, default: [:]][field] = value }
                guard let context = file.contexts[name], context[.control] != nil || context[.data] != nil else {
                    throw CommandFailure(.usage, "a context says where the daemon is: --control URL, or --data DIR")
                }
                file.current = file.current ?? name
            }
        }

        private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
    }

    struct Use: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "use",
            abstract: "Use a context from now on, or none.",
            discussion: """
                Examples:
                  stalecast context use prod
                  stalecast context use --none
                """)

        @Argument(help: "The context.", completion: .contexts)
        var name: String?

        @Flag(help: "Use none: the daemon is looked up in its data directory again.")
        var none = false

        @OptionGroup var outputOptions: OutputOptions

        func validate() throws {
            if (name == nil) != none { throw ValidationError("give a context's name, or --none") }
        }

        func run() async throws {
            let said = name.map { "context \($0) is in use" } ?? "no context is in use"
            try Contexts.change(outputOptions, said) { file throws(CommandFailure) in
                if let name { try file.check(name) }
                file.current = name
            }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Forget a context; its token's file stays.",
            discussion: """
                Examples:
                  stalecast context remove staging
                """)

        @Argument(help: "The context.", completion: .contexts)
        var name: String

        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            try Contexts.change(outputOptions, "context \(name) is forgotten") { file throws(CommandFailure) in
                try file.check(name)
                file.contexts[name] = nil
                if file.current == name { file.current = nil }
            }
        }
    }
}
