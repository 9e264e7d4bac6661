import ArgumentParser
import Foundation
import StalecastAccess
package import StalecastWire

/// `stalecast keys`: API keys and what they are granted.
struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make, list, rotate and revoke API keys.",
        discussion: """
            A key is shown once, when it is made; the daemon keeps its hash. Commands use one with --token-file FILE.

            Examples:
              stalecast keys create --name ci --role publisher --project shop
              stalecast keys create --name app --publishable \\
                --action watch --action fetch
              stalecast keys list
              stalecast keys rotate 4fT0aZ81Qx --overlap 1d
              stalecast keys revoke 4fT0aZ81Qx
            """,
        subcommands: [KeysCreate.self, KeysList.self, KeysRotate.self, KeysRevoke.self, KeysGenerate.self])
}

/// Options for the permissions of a key.
struct GrantOptions: ParsableArguments {
    @Option(help: "Bundle of actions at Control: viewer (read), publisher (read, publish), operator (all).")
    var role: String?

    @Option(
        name: .customLong("action"),
        help: "watch or fetch at Edge; read, publish, manage or operate at Control; repeatable.")
    var actions: [String] = []

    @Option(
        name: .customLong("project"),
        help: ArgumentHelp("Project id, or a pattern with * and ?; repeatable (default: any).", valueName: "id"),
        completion: .projects)
    var projects: [String] = []

    @Option(
        name: .customLong("namespace"),
        help: ArgumentHelp("Namespace, or a pattern; repeatable (default: any).", valueName: "name"),
        completion: .namespaces)
    var namespaces: [String] = []

    @Option(
        name: .customLong("topic"),
        help: ArgumentHelp("Topic, or a pattern; repeatable (default: any).", valueName: "name"), completion: .topics)
    var topics: [String] = []

    @Option(help: ArgumentHelp("What the key is for; at most 128 bytes.", valueName: "text"))
    var name = ""

    @Flag(help: "May be in apps and pages: can only watch and fetch.")
    var publishable = false

    @Option(help: ArgumentHelp("When it ends: a time, or a span from now such as 90d.", valueName: "when"))
    var expires: String?

    var kind: APIKey.Kind { publishable ? .publishable : .secret }

    func grant() throws(CommandFailure) -> Grant {
        if role == nil, actions.isEmpty {
            throw CommandFailure(
                .usage, "nothing says what the key may do",
                advice: "Give --role viewer, publisher or operator, or --action watch, fetch, read, publish, manage or "
                    + "operate (repeatable).")
        }
        do {
            return try Grant(
                role: role, actions: actions, projects: projects.isEmpty ? nil : projects,
                namespaces: namespaces.isEmpty ? nil : namespaces, topics: topics.isEmpty ? nil : topics, at: "grant")
        } catch {
            throw CommandFailure(.usage, "\(error.field) \(error)")
        }
    }

    func end() throws(CommandFailure) -> Timestamp? {
        guard let expires else { return nil }
        if let time = Timestamp(expires) { return time }
        guard let span = Span(argument: expires) else {
            throw CommandFailure(.usage, "--expires \(expires) is neither a time nor a span such as 90d")
        }
        return Timestamp.now().advanced(by: span.duration)
    }

    /// Refuses what Control refuses in `keys create`, for where it is not asked.
    func judge(_ grant: Grant, _ end: Timestamp?) throws(CommandFailure) {
        if name.utf8.count > 128 { throw CommandFailure(.usage, "--name must be a text of at most 128 bytes") }
        if publishable, grant.role != nil || !grant.actions.isSubset(of: [.watch, .fetch]) {
            throw CommandFailure(.usage, "a publishable key is in apps and pages: it can only watch and fetch")
        }
        if let end, end <= .now() { throw CommandFailure(.usage, "--expires must be a time to come") }
    }
}

/// `stalecast keys create`.
struct KeysCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Make a key; shows it, this once.",
        discussion: """
            With --save the key goes into a file (mode 0600) instead of onto the terminal.

            Examples:
              stalecast keys create --name ci --role publisher --save ci.key
              stalecast keys create --name dashboard --role viewer --expires 90d
              stalecast keys create --name app --publishable \\
                --action watch --action fetch
            """)

    @OptionGroup var grants: GrantOptions

    @Option(
        help: ArgumentHelp("Write the key into this file, which must not exist.", valueName: "file"),
        completion: .file())
    var save: String?

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        var body: JSONObject = [
            "name": .string(grants.name), "kind": .string(grants.kind.word), "grants": [try grants.grant().json],
        ]
        body["expires"] = try grants.end().map { .string($0.description) }
        let client = try connection.controlClient()
        try await KeyReport.ofNewKey(save, outputOptions.output) {
            try await client.send("POST", "/v1/keys", body: .object(body), changes: true).json()
        }
    }
}

/// `stalecast keys list`.
struct KeysList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the keys, oldest first.",
        discussion: """
            USED is since the daemon started.

            Examples:
              stalecast keys list
              stalecast keys list --json | jq -r '.keys[] | .id, .state'
            """)

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let answer = try await connection.controlClient().send("GET", "/v1/keys").json()
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        let keys = answer["keys"]?.array ?? []
        if keys.isEmpty { return output.remark("no keys yet; `stalecast keys create --help` says how to make one") }
        var table = TextTable(
            .left("ID"), .left("KIND"), .left("STATE"), .left("NAME"), .left("GRANTS"), .whole("EXPIRES"),
            .whole("USED"))
        for key in keys {
            let grants = (key["grants"]?.array ?? []).map(KeyReport.words).joined(separator: "; ")
            table.add(
                key["id"]?.string ?? "?", key["kind"]?.string ?? "?", key["state"]?.string ?? "?",
                key["name"]?.string ?? "", grants, clockTime(key["expires"]?.string ?? "-"),
                clockTime(key["lastUsed"]?.string ?? "-"))
        }
        for line in table.lines(output.palette) { try output.line(line) }
    }
}

/// `stalecast keys rotate`.
struct KeysRotate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate", abstract: "Give a key another secret; shows it, this once.",
        discussion: """
            The secret before it is taken until the overlap is over. A second rotation ends the one before at once.

            Examples:
              stalecast keys rotate 4fT0aZ81Qx
              stalecast keys rotate 4fT0aZ81Qx --overlap 0s --save new.key
            """)

    @Argument(help: "The key's id, as `stalecast keys list` shows it.")
    var id: String

    @Flag(name: .shortAndLong, help: "Do it without the question that a terminal is asked.")
    var yes = false

    @Option(help: ArgumentHelp("How long the secret before it is taken (default: 7d).", valueName: "span"))
    var overlap: Span?

    @Option(
        help: ArgumentHelp("Write the key into this file, which must not exist.", valueName: "file"),
        completion: .file())
    var save: String?

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let path = try KeyReport.path(id)
        var body = JSONObject()
        if let (seconds, rest) = overlap?.duration.components {
            // The API takes whole seconds: never less than what was asked for.
            body["overlap"] = .string("\(seconds + (rest > 0 ? 1 : 0))s")
        }
        let client = try connection.controlClient()
        if !yes, !outputOptions.output.isJSON, Question.canBeAsked {
            let span = overlap.map { $0.defaultValueDescription } ?? "7d"
            try Question(
                try await KeyReport.question("Give another secret to", id, client)
                    + " The one before is taken for \(span) more."
            ).agree()
        }
        try await KeyReport.ofNewKey(save, outputOptions.output) {
            try await client.send("POST", "\(path):rotate", body: .object(body), changes: true).json()
        }
    }
}

/// `stalecast keys revoke`.
struct KeysRevoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "End a key for good.",
        discussion: """
            Streams it opened end within two seconds. A terminal is asked first.

            Example:
              stalecast keys revoke 4fT0aZ81Qx
            """)

    @Argument(help: "The key's id, as `stalecast keys list` shows it.")
    var id: String

    @Flag(name: .shortAndLong, help: "Revoke without the question that a terminal is asked.")
    var yes = false

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let path = try KeyReport.path(id)
        let (client, output) = (try connection.controlClient(), outputOptions.output)
        if !yes, !output.isJSON, Question.canBeAsked {
            try Question(
                try await KeyReport.question("Revoke", id, client)
                    + " Streams it opened end within two seconds, and nothing brings it back."
            ).agree()
        }
        let answer = try await client.send("POST", "\(path):revoke", body: [:], changes: true).json()
        if output.isJSON { return try output.json(answer) }
        try output.line("revoked \(id)")
    }
}

/// `stalecast keys generate`: a key for the configuration, without a daemon.
struct KeysGenerate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generate", abstract: "Make a key and its entry of auth.keys, without a daemon.",
        discussion: """
            The key goes to standard error or, with --save, into a file; the entry to standard output.

            Example:
              stalecast keys generate --name ci --role publisher --save ci.key
            """)

    @OptionGroup var grants: GrantOptions

    @Option(
        help: ArgumentHelp("Write the key into this file, which must not exist.", valueName: "file"),
        completion: .file())
    var save: String?

    func run() async throws {
        let (grant, end) = (try grants.grant(), try grants.end())
        try grants.judge(grant, end)
        var random = SystemRandomNumberGenerator()
        let key = APIKey(grants.kind, using: &random)
        let output = Output(isJSON: false, palette: Palette(isOn: false))
        if let save {
            try SecretFile.claim(save)
            try SecretFile.fill(save, key.text)
        } else {
            output.remark("the key, shown this once: \(key.text)")
        }
        try output.line("- name: \(JSONValue.string(grants.name).text())")
        try output.line("  id: \(APIKey.prefix)\(key.kind.rawValue)_\(key.id)")
        try output.line("  sha256: [\(key.digest.hexadecimal)]")
        for (name, value) in grant.json.object?.members ?? [] { try output.line("  \(name): \(value.text())") }
        if let end { try output.line("  expires: \(end)") }
    }
}

/// Forms in which keys are shown.
package enum KeyReport {
    /// - Throws: ``CommandFailure`` for what cannot be an id.
    static func path(_ id: String) throws(CommandFailure) -> String {
        guard APIKey.isID(id) || id == "bootstrap" else {
            throw CommandFailure(
                .usage, "\"\(id)\" is no id of a key", advice: "`stalecast keys list` shows them: 10 characters.")
        }
        return "/v1/keys/\(id)"
    }

    /// Question to a person before a key is changed.
    fileprivate static func question(
        _ act: String, _ id: String, _ client: ControlClient
    ) async throws(CommandFailure) -> String {
        let keys = try await client.send("GET", "/v1/keys").json()["keys"]?.array ?? []
        return question(act, id, keys.first { $0["id"]?.string == id })
    }

    /// `Revoke the publishable key 4fT0aZ81Qx ("app", watch,fetch on *, last used 2026-11-25 10:00:00)?`
    package static func question(_ act: String, _ id: String, _ key: JSONValue?) -> String {
        guard let key else { return "\(act) key \(id)?" }
        var facts = (key["grants"]?.array ?? []).map(words)
        if let name = key["name"]?.string, !name.isEmpty { facts.insert("\"\(name.printable)\"", at: 0) }
        let used = key["lastUsed"]?.string.map { "last used \(clockTime($0))" }
        facts.append(used ?? "not used since the daemon started")
        return "\(act) the \(key["kind"]?.string ?? "") key \(id) (\(facts.joined(separator: ", ")))?"
    }

    /// A grant in a line: `publisher on shop`.
    static func words(_ grant: JSONValue) -> String {
        let actions = [grant["role"]?.string].compactMap { $0 } + (grant["actions"]?.array ?? []).compactMap(\.string)
        func patterns(_ name: String) -> String? {
            let texts = (grant[name]?.array ?? []).compactMap(\.string)
            return texts == ["*"] || texts.isEmpty ? nil : texts.joined(separator: ",")
        }
        let project = patterns("projects") ?? "*"
        let place = project + (patterns("namespaces").map { "/" + $0 } ?? "")
        return "\(actions.joined(separator: ",")) on \(place)" + (patterns("topics").map { " topics \($0)" } ?? "")
    }

    /// Shows a key that `make` makes, or saves it: the file is there before the key is.
    static func ofNewKey(
        _ file: String?, _ output: Output, _ make: () async throws -> JSONValue
    ) async throws {
        if let file { try SecretFile.claim(file) }
        var answer: JSONValue
        do { answer = try await make() } catch {
            if let file { SecretFile.release(file) }
            throw error
        }
        let (id, text) = (answer["id"]?.string ?? "?", answer["key"]?.string ?? "")
        if let file {
            try SecretFile.fill(file, text)
            var object = answer.object ?? [:]
            object["key"] = nil
            object["savedTo"] = .string(file)
            answer = .object(object)
        }
        if output.isJSON { return try output.json(answer) }
        try output.line("key \(id) (\((answer["grants"]?.array ?? []).map(words).joined(separator: "; ")))")
        if let file { return try output.line("saved to \(file)") }
        try output.line(text)
        output.remark("It is shown this once; keep it where secrets are kept.")
    }
}
