import ArgumentParser
import Testing
import stalecast

/// Tests the texts of `--help`, which are copied into terminals.
@Suite struct HelpTests {
    /// Lines of examples with the name of their command: indented, continued lines twice.
    private static let examples: [(command: String, line: Substring)] = commands(from: Stalecast.self).flatMap {
        command in
        let text = command.configuration.discussion
        guard
            let heading = ["EXAMPLES\n", "Examples:\n", "Example:\n", "First steps:\n"].lazy
                .compactMap({ text.firstRange(of: $0) }).first
        else { return [(command: String, line: Substring)]() }
        let lines = text[heading.upperBound...].split(separator: "\n", omittingEmptySubsequences: false)
        return lines.prefix { $0.hasPrefix("  ") }.map { (command._commandName, $0) }
    }

    private static func commands(from root: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        [root] + root.configuration.subcommands.flatMap { commands(from: $0) }
    }

    @Test func examplesAreNotBrokenByATerminalOf80Columns() {
        #expect(Self.examples.count > 80)
        for (command, line) in Self.examples { #expect(line.count <= 76, "\(command): \(line)") }
    }

    /// A remark in brackets would be a syntax error of the shell's.
    @Test func remarksOnExamplesAreComments() {
        for (command, line) in Self.examples { #expect(!line.dropFirst(2).contains("  ("), "\(command): \(line)") }
    }

    /// The parser would make a name of the type's: each takes 0.2 ms of every start, of every command.
    @Test func everyCommandSaysItsName() {
        for command in Self.commands(from: Stalecast.self) {
            #expect(command.configuration.commandName != nil, "\(command)")
        }
    }

    @Test func anExampleGoesOnAfterABackslashOnly() {
        for (before, after) in zip(Self.examples, Self.examples.dropFirst()) where after.line.hasPrefix("    ") {
            #expect(before.line.hasSuffix(" \\"), "\(after.command): \(after.line)")
        }
        for (command, line) in Self.examples where line.hasSuffix("\\") {
            #expect(line.hasSuffix(" \\"), "\(command): \(line)")
        }
    }
}
