import Foundation
import StalecastWire

/// A question to the person at the terminal, answered with y or n; anything else is no.
struct Question {
    private let text: String

    init(_ text: String) { self.text = text }

    /// True when a person sees the question and can answer.
    static var canBeAsked: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// - Throws: ``CommandFailure`` when the answer is no.
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
