import ArgumentParser
import Foundation
import StalecastWire

/// Forms in which results are shown; shared by all commands that show any.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON for scripts instead of text for people.")
    var json = false

    @Flag(help: "No colours, also on a terminal (or NO_COLOR=1).")
    var noColor = false

    @Flag(help: "Show times in UTC instead of the zone of TZ.")
    var utc = false

    @Flag(help: "Shorten no column to the terminal's width.")
    var wide = false

    /// The output these options describe, with colours only when standard output is a terminal.
    var output: Output {
        let environment = ProcessInfo.processInfo.environment
        let isOn = Palette.isWanted(environment, isTerminal: isatty(STDOUT_FILENO) == 1)
        return Output(isJSON: json, palette: Palette(isOn: !noColor && isOn))
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

    func lines(_ lines: [String]) throws(CommandFailure) {
        for text in lines { try line(text) }
    }

    /// Shows a result: the document with `--json`, else lines for people.
    func show(_ document: @autoclosure () -> JSONValue, _ text: @autoclosure () -> [String]) throws(CommandFailure) {
        if isJSON { try json(document()) } else { try lines(text()) }
    }

    /// Shows a list: a document with `--json`, a remark when it is empty, else a table with a row for each element.
    ///
    /// - Parameters:
    ///   - name: the list's member in the document.
    ///   - document: nil takes one that has the list alone.
    ///   - hasMore: whether a limit left elements out.
    func list(
        _ name: String, _ rows: [JSONValue], in document: JSONValue? = nil, ifNone remark: String,
        hasMore: Bool = false, _ columns: TextTable.Column...
    ) throws(CommandFailure) {
        if isJSON { return try json(document ?? .object([name: .array(rows)])) }
        if rows.isEmpty { return self.remark(remark) }
        try lines(TextTable(columns, of: rows).lines(palette))
        if hasMore { self.remark("there are more; see --limit") }
    }

    func write(_ bytes: [UInt8]) throws(CommandFailure) {
        do {
            try FileHandle.standardOutput.write(contentsOf: Data(bytes))
        } catch {
            // The reader has seen enough, as `head` has: ends as a signal would end it.
            if error.reason == String(cString: strerror(EPIPE)) { exit(128 + SIGPIPE) }
            throw CommandFailure(.refused, "the result could not be written to standard output: \(error.reason)")
        }
    }

    /// Writes a JSON document, indented for reading, to standard output.
    func json(_ value: JSONValue) throws(CommandFailure) { try jsonText(value.text(.pretty)) }

    /// Writes JSON as it came. On a terminal what could steer it is written as JSON's escapes, which mean the same.
    func jsonText(_ text: String) throws(CommandFailure) {
        try line(isatty(STDOUT_FILENO) == 1 ? text.jsonPrintable : text)
    }

    /// Writes a remark to standard error: it is not a result, scripts reading standard output do not see it.
    func remark(_ text: String) { StandardError.write(text + "\n") }
}

package struct Palette: Sendable {
    let isOn: Bool

    package init(isOn: Bool) { self.isOn = isOn }

    /// NO_COLOR (https://no-color.org) silences, FORCE_COLOR colours pipes too, TERM=dumb knows no colours.
    package static func isWanted(_ environment: [String: String], isTerminal: Bool) -> Bool {
        if !(environment["NO_COLOR"] ?? "").isEmpty { return false }
        if let forced = environment["FORCE_COLOR"], !forced.isEmpty { return forced != "0" }
        return isTerminal && environment["TERM"] != "dumb"
    }

    func bold(_ text: String) -> String { paint(text, "1") }
    func dim(_ text: String) -> String { paint(text, "2") }
    func red(_ text: String) -> String { paint(text, "31") }
    func green(_ text: String) -> String { paint(text, "32") }
    func yellow(_ text: String) -> String { paint(text, "33") }

    private func paint(_ text: String, _ code: String) -> String {
        isOn && !text.isEmpty ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}

package struct ErrorReport {
    private let failure: CommandFailure

    package init(_ failure: CommandFailure) { self.failure = failure }

    package var lines: [String] {
        ["stalecast: \(failure.sentence.printable)"]
            + failure.problems.map { "  - \($0.printable)" }
            + (failure.advice.map { [$0] } ?? [])
    }

    /// `{"error":{"code","message","problems","advice"},"exitCode"}` on one line; members without a value are left out.
    package var json: String {
        var error: JSONObject = ["code": .string("\(failure.status)"), "message": .string(failure.sentence)]
        if !failure.problems.isEmpty { error["problems"] = .array(failure.problems.map(JSONValue.string)) }
        if let advice = failure.advice { error["advice"] = .string(advice) }
        return JSONValue.object(["error": .object(error), "exitCode": .int(failure.status.rawValue)]).text()
    }

    /// Writes to standard error, as results are written to standard output: standard output has whole results or
    /// nothing.
    func write() {
        let width = TerminalSize.of(STDERR_FILENO)?.columns
        let text = Self.isJSONAsked ? json : lines.joined(separator: "\n").wrapped(to: width)
        StandardError.write(text + "\n")
    }

    /// Looked up by itself, as also a command line that cannot be parsed fails.
    static var isJSONAsked: Bool { CommandLine.arguments.prefix { $0 != "--" }.contains("--json") }
}

extension Unicode.Scalar {
    /// Control characters, line and paragraph separators, text direction marks.
    fileprivate var steersTerminal: Bool {
        switch value {
        case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

extension String {
    /// JSON whose strings are safe for a terminal; its line ends stay.
    package var jsonPrintable: String {
        escaped { $0 == "\n" ? "\n" : String(format: "\\u%04x", $0.value) }
    }

    /// Safe for a terminal: control characters, line and paragraph separators and text direction marks are escaped,
    /// so that a description written by a stranger cannot move the cursor or forge a line.
    var printable: String { escaped { $0 == "\n" ? "\\n" : "\\u{\(String($0.value, radix: 16))}" } }

    private func escaped(_ escape: (Unicode.Scalar) -> String) -> String {
        unicodeScalars.reduce(into: "") { text, scalar in
            if scalar.steersTerminal { text += escape(scalar) } else { text.unicodeScalars.append(scalar) }
        }
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
