import ArgumentParser
import Foundation
import StalecastWire

/// Flag that answers a command's question beforehand.
struct YesOption: ParsableArguments {
    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    /// Whether a person is asked: scripts, and readers of JSON, are not.
    func asks(_ output: Output) -> Bool { Question.canBeAsked && !yes && !output.isJSON }

    /// Asks where a person can be asked.
    ///
    /// - Throws: ``CommandFailure`` when the answer is no.
    func ask(_ question: @autoclosure () -> String, _ output: Output) throws(CommandFailure) {
        if asks(output) { try Question(question()).agree() }
    }
}

/// A question to the person at the terminal, answered with y or n; anything else is no.
struct Question {
    private let text: String

    init(_ text: String) { self.text = text }

    /// True when a person sees the question and can answer.
    static var canBeAsked: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    func agree() throws(CommandFailure) {
        if !isAffirmed { throw CommandFailure(.refused, "nothing was changed") }
    }

    /// Asks and waits. Ctrl-C is an answer too: the process ends with 130.
    var isAffirmed: Bool {
        let before = signal(SIGINT) { _ in
            let words: StaticString = "\nstalecast: interrupted; nothing was changed\n"
            write(STDERR_FILENO, words.utf8Start, words.utf8CodeUnitCount)
            _exit(128 + SIGINT)
        }
        defer { signal(SIGINT, before) }
        let asked = "\(text) [y/N]".wrapped(to: TerminalSize.of(STDERR_FILENO)?.columns) + " "
        StandardError.write(asked)
        guard let answer = readLine() else {
            StandardError.write("\n")
            return false
        }
        return ["y", "yes"].contains(answer.trimmingCharacters(in: .whitespaces).lowercased())
    }
}
