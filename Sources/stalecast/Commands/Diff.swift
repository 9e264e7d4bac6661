import ArgumentParser
import StalecastTemplate
import StalecastWire

struct Diff: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show what differs between two templates.",
        discussion: """
            A and B are version numbers, files, or the word current for the active version. A file whose name is a \
            number is written ./3. The exit code is 0 whether or not they differ, unless --exit-code is given.

            Examples:
              stalecast diff 1 2
              stalecast diff current samples/templates/demo-winter.json
              stalecast diff a.json b.json --json | jq -r '.parameters[].name'
              stalecast diff --exit-code current deployed.json \\
                || stalecast publish deployed.json
            """)

    @Argument(help: .value("a", "The older side."), completion: .file())
    var old: String

    @Argument(help: .value("b", "The newer side."), completion: .file())
    var new: String

    @Flag(help: "End with 1 when they differ.")
    var exitCode = false

    @OptionGroup var scoped: ScopedOptions

    func run() async throws {
        let changes = TemplateChanges(from: try await side(old), to: try await side(new))
        if output.isJSON {
            try output.json(changes.json)
        } else if changes.isEmpty {
            output.remark("no difference")
        } else {
            let lines = changes.text.split(separator: "\n", omittingEmptySubsequences: false)
            let text = lines.map { output.palette.difference(String($0)) }.joined(separator: "\n")
            try output.write(Array(text.utf8))
        }
        if exitCode, !changes.isEmpty { throw ExitCode(ExitStatus.refused.rawValue) }
    }

    private func side(_ name: String) async throws -> Template {
        let scope = try scoped.scope()
        let version = Int64(name)
        guard version != nil || name == "current" else { return try TemplateFile(name).template(for: scope.namespace) }
        if let version, version < 1 { throw CommandFailure(.usage, "a version number is 1 or more, not \(name)") }
        return try await api().get(version).template()
    }
}
