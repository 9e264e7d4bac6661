import ArgumentParser

struct Completion: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completion",
        abstract: "Print a script that completes commands, options, files, ids and versions in your shell.",
        discussion: """
            Ids, topics, parameters and versions are asked from the daemon that counts without flags.

            Examples:
              source <(stalecast completion bash)
              stalecast completion zsh > ~/.zfunc/_stalecast
              stalecast completion fish \\
                > ~/.config/fish/completions/stalecast.fish
            """)

    enum Shell: String, ExpressibleByArgument, CaseIterable { case bash, zsh, fish }

    @Argument(help: "bash, zsh or fish.")
    var shell: Shell

    func run() throws {
        // The parser knows all three by the same names.
        let script = Stalecast.completionScript(for: CompletionShell(rawValue: shell.rawValue) ?? .bash)
        try Output(isJSON: false, palette: Palette(isOn: false)).line(script)
    }
}

extension ArgumentHelp {
    /// The help of an option whose value is called `name` in the usage line.
    static func value(_ name: String, _ text: String) -> ArgumentHelp { ArgumentHelp(text, valueName: name) }
}

extension CompletionKind {
    static let versionNumbers = listed("versions", "versionNumber")
    static let topics = listed("topics", "name")
    static let proposals = listed("proposals list", "number")
    static let webhooks = listed("webhooks list", "id")
    static let projects = listed("status", "project")
    static let parameters = CompletionKind.shellCommand("stalecast get --keys 2>/dev/null")
    /// Names of its conditions: nothing else in a template is called by a name.
    static let conditions = listed("get", "name")
    static let contexts = CompletionKind.shellCommand(
        "stalecast context list --json 2>/dev/null | sed -n 's/^    \"\\([^\"]*\\)\": {.*/\\1/p'")
    static let namespaces = CompletionKind.list(["firebase", "firebase-server"])

    /// The values of a member of what a command lists; nothing when no daemon is there.
    private static func listed(_ command: String, _ member: String) -> CompletionKind {
        let pick = "sed -n 's/^ *\"\(member)\": \"\\([^\"]*\\)\".*/\\1/p'"
        return .shellCommand("stalecast \(command) --json 2>/dev/null | \(pick) | sort -u")
    }
}
