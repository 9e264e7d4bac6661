import ArgumentParser
import StalecastAccess
package import StalecastWire

struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
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

struct GrantOptions: ParsableArguments {
    @Option(help: "Bundle of actions at Control: viewer (read), publisher (read, publish), operator (all).")
    var role: String?

    @Option(
        name: .customLong("action"),
        help: "watch or fetch at Edge; read, publish, manage or operate at Control; repeatable.")
    var actions: [String] = []

    @Option(
        name: .customLong("project"),
        help: .value("id", "Project id, or a pattern with * and ?; repeatable (default: any)."), completion: .projects)
    var projects: [String] = []

    @Option(
        name: .customLong("namespace"), help: .value("name", "Namespace, or a pattern; repeatable (default: any)."),
        completion: .namespaces)
    var namespaces: [String] = []

    @Option(
        name: .customLong("topic"), help: .value("name", "Topic, or a pattern; repeatable (default: any)."),
        completion: .topics)
    var topics: [String] = []

    @Option(help: .value("text", "What the key is for; at most 128 bytes."))
    var name = ""

    @Flag(help: "May be in apps and pages: can only watch and fetch.")
    var publishable = false

    @Option(help: .value("when", "When it ends: a time, or a span from now such as 90d."))
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
        if let end = FutureTime(argument: expires) { return end.time }
        throw CommandFailure(.usage, "--expires \(expires) is neither a time nor a span such as 90d")
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

/// Option that keeps a new key off the screen.
struct KeySavingOptions: ParsableArguments {
    @Option(help: .value("file", "Write the key into this file, which must not exist."), completion: .file())
    var save: String?
}

/// A key that is there, and the question before it is changed.
struct KeyTarget: ParsableArguments {
    @Argument(help: "The key's id, as `stalecast keys list` shows it, or its name if only one key has it.")
    var key: String

    /// Finds the key and asks before it is changed.
    ///
    /// - Parameters:
    ///   - act: begins the question, `Revoke`.
    ///   - consequence: follows it.
    /// - Returns: its id.
    /// - Throws: ``CommandFailure`` when there is no such key, or a person who can be asked does not agree.
    func agreed(
        _ act: String, _ consequence: String, _ options: some ControlOptions, _ agreement: YesOption
    ) async throws(CommandFailure) -> String {
        let keys = try await options.client().send("GET", "/v1/keys").json().items("keys")
        let id = try KeyReport.id(of: key, among: keys)
        let key = keys.first { $0["id"]?.string == id }
        try agreement.ask("\(KeyReport.question(act, id, key)) \(consequence)", options.output)
        return id
    }
}

struct KeysCreate: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Make a key and show it once.",
        discussion: """
            With --save the key goes into a file (mode 0600) instead of onto the terminal.

            Examples:
              stalecast keys create --name ci --role publisher --save ci.key
              stalecast keys create --name dashboard --role viewer --expires 90d
              stalecast keys create --name app --publishable \\
                --action watch --action fetch
            """)

    @OptionGroup var grants: GrantOptions

    @OptionGroup var saving: KeySavingOptions

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        let body: JSONObject = [
            "name": .string(grants.name), "kind": .string(grants.kind.word), "grants": [try grants.grant().json],
            "expires": try grants.end().map { .string($0.description) },
        ]
        let client = try client()
        try await KeyReport.ofNewKey(saving.save, output) { () async throws(CommandFailure) in
            try await client.send("POST", "/v1/keys", body: .object(body), changes: true).json()
        }
    }
}

struct KeysList: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the keys, oldest first.",
        discussion: """
            USED is since the daemon started.

            Examples:
              stalecast keys list
              stalecast keys list --json | jq -r '.keys[] | .id, .state'
            """)

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        let answer = try await client().send("GET", "/v1/keys").json()
        try output.list(
            "keys", answer.items("keys"), in: answer,
            ifNone: "no keys yet; `stalecast keys create --help` says how to make one",
            .left("ID") { $0.word("id") }, .left("KIND") { $0.word("kind") }, .left("STATE") { $0.word("state") },
            .left("NAME") { $0.word("name", "") }, .left("GRANTS") { KeyReport.words(of: $0) },
            .whole("EXPIRES") { clockTime($0.word("expires", "-")) },
            .whole("USED") { clockTime($0.word("lastUsed", "-")) })
    }
}

struct KeysRotate: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "rotate", abstract: "Give a key a new secret and show it once.",
        discussion: """
            The secret before it is taken until the overlap is over. A second rotation ends the one before at once.

            Examples:
              stalecast keys rotate 4fT0aZ81Qx
              stalecast keys rotate 4fT0aZ81Qx --overlap 0s --save new.key
            """)

    @OptionGroup var target: KeyTarget

    @OptionGroup var agreement: YesOption
    @Option(help: .value("span", "How long the old secret stays valid (default: 7d)."))
    var overlap: Span?

    @OptionGroup var saving: KeySavingOptions

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        var body = JSONObject()
        if let (seconds, rest) = overlap?.duration.components {
            // The API takes whole seconds: never less than what was asked for.
            body["overlap"] = .string("\(seconds + (rest > 0 ? 1 : 0))s")
        }
        let client = try client()
        let span = overlap.map { $0.defaultValueDescription } ?? "7d"
        let id = try await target.agreed(
            "Give another secret to", "The one before is taken for \(span) more.", self, agreement)
        try await KeyReport.ofNewKey(saving.save, output) { () async throws(CommandFailure) in
            try await client.send("POST", "/v1/keys/\(id):rotate", body: .object(body), changes: true).json()
        }
    }
}

struct KeysRevoke: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "End a key for good.",
        discussion: """
            Streams that it opened end within two seconds. On a terminal the command asks first.

            Example:
              stalecast keys revoke 4fT0aZ81Qx
            """)

    @OptionGroup var target: KeyTarget

    @OptionGroup var agreement: YesOption
    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        let id = try await target.agreed(
            "Revoke", "Streams it opened end within two seconds, and nothing brings it back.", self, agreement)
        let answer = try await client().send("POST", "/v1/keys/\(id):revoke", body: [:], changes: true).json()
        try output.show(answer, ["revoked \(id)"])
    }
}

struct KeysGenerate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generate", abstract: "Make a key and its entry of auth.keys, without a daemon.",
        discussion: """
            The key goes to standard error or, with --save, into a file; the entry to standard output.

            Example:
              stalecast keys generate --name ci --role publisher --save ci.key
            """)

    @OptionGroup var grants: GrantOptions

    @OptionGroup var saving: KeySavingOptions

    func run() async throws {
        let (grant, end) = (try grants.grant(), try grants.end())
        try grants.judge(grant, end)
        var random = SystemRandomNumberGenerator()
        let key = APIKey(grants.kind, using: &random)
        let output = Output(isJSON: false, palette: Palette(isOn: false))
        if let save = saving.save {
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

package enum KeyReport {
    /// Id of the key with this id, or of the only one with this name that is not revoked. An empty name names no key.
    ///
    /// - Throws: ``CommandFailure`` for what neither is an id nor names one key.
    package static func id(of word: String, among keys: [JSONValue]) throws(CommandFailure) -> String {
        let named = word.isEmpty ? [] : keys.filter { $0["name"]?.string == word && $0["state"]?.string != "revoked" }
        if keys.contains(where: { $0["id"]?.string == word }) { return word }
        if named.count == 1, let id = named[0]["id"]?.string { return id }
        // The daemon says what is wrong with these.
        if named.isEmpty, APIKey.isID(word) || word == "bootstrap" { return word }
        throw CommandFailure(
            named.isEmpty && !word.isEmpty ? .notFound : .usage,
            named.isEmpty
                ? "no key has the id or the name \"\(word)\""
                : "\(named.count) keys are called \"\(word)\": \(named.map { $0.word("id") }.joined(separator: ", "))",
            advice: named.isEmpty ? "`stalecast keys list` shows both." : "Give the id of one.")
    }

    /// `Revoke the publishable key 4fT0aZ81Qx ("app", watch,fetch on *, last used 2026-11-25 10:00:00)?`
    package static func question(_ act: String, _ id: String, _ key: JSONValue?) -> String {
        guard let key else { return "\(act) key \(id)?" }
        var facts = key.items("grants").map { words($0) }
        if let name = key["name"]?.string, !name.isEmpty { facts.insert("\"\(name.printable)\"", at: 0) }
        let used = key["lastUsed"]?.string.map { "last used \(clockTime($0))" }
        facts.append(used ?? "not used since the daemon started")
        return "\(act) the \(key.word("kind", "")) key \(id) (\(facts.joined(separator: ", ")))?"
    }

    static func words(of key: JSONValue) -> String { key.items("grants").map { words($0) }.joined(separator: "; ") }

    /// A grant in a line: `publisher on shop`.
    static func words(_ grant: JSONValue) -> String {
        let actions = [grant["role"]?.string].compactMap { $0 } + grant.words("actions")
        func patterns(_ name: String) -> String? {
            let texts = grant.words(name)
            return texts == ["*"] || texts.isEmpty ? nil : texts.joined(separator: ",")
        }
        let project = patterns("projects") ?? "*"
        let place = project + (patterns("namespaces").map { "/" + $0 } ?? "")
        return "\(actions.joined(separator: ",")) on \(place)" + (patterns("topics").map { " topics \($0)" } ?? "")
    }

    /// Shows a key that `make` makes, or saves it: the file is there before the key is.
    static func ofNewKey(
        _ file: String?, _ output: Output, _ make: () async throws(CommandFailure) -> JSONValue
    ) async throws(CommandFailure) {
        var answer = try await SecretFile.claiming(file, make)
        let (id, text) = (answer.word("id"), answer.word("key", ""))
        if let file {
            try SecretFile.fill(file, text)
            var object = answer.object ?? [:]
            object["key"] = nil
            object["savedTo"] = .string(file)
            answer = .object(object)
        }
        if output.isJSON { return try output.json(answer) }
        try output.line("key \(id) (\(words(of: answer)))")
        if let file { return try output.line("saved to \(file)") }
        try output.line(text)
        output.remark("It is shown this once; keep it where secrets are kept.")
    }
}
