import Foundation

/// A question to the person at the terminal, answered with y or n; anything else is no.
struct Question {
    private let text: String

    init(_ text: String) { self.text = text }

    /// Somebody sits there who sees the question and can answer.
    static var canBeAsked: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks and waits.
    var isAffirmed: Bool {
        FileHandle.standardError.write(Data("\(text) [y/N] ".utf8))
        return ["y", "yes"].contains((readLine() ?? "").trimmingCharacters(in: .whitespaces).lowercased())
    }
}
