import ArgumentParser
import Foundation
import StalecastWire

/// How results are shown; shared by all commands that show any.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON for scripts instead of text for people.")
    var json = false

    @Flag(help: "No colours, also on a terminal. The environment variable NO_COLOR does the same.")
    var noColor = false

    /// The output these options describe, with colours only when standard output is a terminal.
    var output: Output {
        let silenced = noColor || !(ProcessInfo.processInfo.environment["NO_COLOR"] ?? "").isEmpty
        return Output(isJSON: json, palette: Palette(isOn: !silenced && isatty(STDOUT_FILENO) == 1))
    }
}

/// Standard output and standard error of a command. Every line is written at once, so that a pipe sees it live.
struct Output: Sendable {
    /// Results are one JSON document (or one per line) on standard output.
    let isJSON: Bool
    let palette: Palette

    /// Writes `text` and a line end to standard output.
    /// - Throws: ``CommandFailure`` when it cannot be written, for example on a full disk.
    func line(_ text: String = "") throws(CommandFailure) {
        try write(Array((text + "\n").utf8))
    }

    /// Writes bytes as they are to standard output.
    func write(_ bytes: [UInt8]) throws(CommandFailure) {
        do {
            try FileHandle.standardOutput.write(contentsOf: Data(bytes))
        } catch {
            throw CommandFailure(.refused, "the result could not be written to standard output: \(error.reason)")
        }
    }

    /// Writes a JSON document, indented for reading, to standard output.
    func json(_ value: JSONValue) throws(CommandFailure) { try line(value.text(.pretty)) }

    /// Writes a remark to standard error: it is not a result, scripts reading standard output do not see it.
    func remark(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
}

/// Terminal colours, or none.
struct Palette: Sendable {
    let isOn: Bool

    func bold(_ text: String) -> String { paint(text, "1") }
    func dim(_ text: String) -> String { paint(text, "2") }
    func red(_ text: String) -> String { paint(text, "31") }
    func green(_ text: String) -> String { paint(text, "32") }
    func yellow(_ text: String) -> String { paint(text, "33") }

    private func paint(_ text: String, _ code: String) -> String {
        isOn && !text.isEmpty ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}

/// A failure as it is shown on standard error.
struct ErrorReport {
    private let failure: CommandFailure

    init(_ failure: CommandFailure) { self.failure = failure }

    /// The sentence, the problems as a list, the advice.
    var lines: [String] {
        ["stalecast: \(failure.sentence.printable)"]
            + failure.problems.map { "  - \($0.printable)" }
            + (failure.advice.map { [$0] } ?? [])
    }

    func write() { FileHandle.standardError.write(Data((lines.joined(separator: "\n") + "\n").utf8)) }
}

extension String {
    /// Safe for a terminal: control characters, line and paragraph separators and text direction marks are escaped,
    /// so that a description written by a stranger cannot move the cursor or forge a line.
    var printable: String {
        var text = ""
        for scalar in unicodeScalars {
            switch scalar.value {
            case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069:
                text += scalar == "\n" ? "\\n" : "\\u{\(String(scalar.value, radix: 16))}"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

extension Error {
    /// A few words on a file's or a connection's error, for the brackets of a sentence.
    var reason: String {
        switch (self as? CocoaError)?.code {
        case .fileReadNoSuchFile?, .fileNoSuchFile?: return "no such file"
        case .fileReadNoPermission?, .fileWriteNoPermission?: return "permission denied"
        case .fileWriteOutOfSpace?: return "no space left"
        default: break
        }
        let error = self as NSError
        let underlying = error.userInfo[NSUnderlyingErrorKey] as? NSError
        let system = [underlying, error].compactMap { $0 }.first { $0.domain == NSPOSIXErrorDomain }
        return system.map { String(cString: strerror(Int32($0.code))) } ?? error.localizedDescription
    }
}
