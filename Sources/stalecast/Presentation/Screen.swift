import Foundation

/// The terminal's second screen: what was on the first comes back at the end.
enum Screen {
    private static let leave: StaticString = "\u{1B}[?25h\u{1B}[?1049l"

    static func open(_ output: Output) throws(CommandFailure) {
        for number in [SIGINT, SIGTERM] {
            signal(number) { _ in
                Screen.close()
                _exit(0)
            }
        }
        try output.write(Array("\u{1B}[?1049h\u{1B}[?25l".utf8))
    }

    static func draw(_ lines: [String], _ output: Output) throws(CommandFailure) {
        let shown = lines.prefix(max(1, (TerminalSize.now?.rows ?? 24) - 1))
        let text = shown.map { $0 + "\u{1B}[K\r\n" }.joined()
        try output.write(Array("\u{1B}[H\(text)\u{1B}[J".utf8))
    }

    static func close() { write(STDOUT_FILENO, leave.utf8Start, leave.utf8CodeUnitCount) }
}
