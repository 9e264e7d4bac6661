import Foundation
package import StalecastWire

/// Rows of text in columns that line up: names to the left, numbers to the right. On a terminal that is too narrow
/// columns that can be spared are left out, then the widest columns of text are shortened with `…`.
package struct TextTable {
    package enum Alignment { case left, right }

    /// A column's heading, which way its cells go, and what may be done to it.
    package struct Column {
        let title: String
        let alignment: Alignment
        var mayBeShortened = false
        /// Shortened in the middle: beginning and end tell it from others.
        var isPlace = false
        var canBeSpared = false
        /// Cell of a row that is an object of JSON.
        let cell: Cell

        package typealias Cell = (JSONValue) -> String

        /// Text that can be shortened.
        package static func left(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .left, mayBeShortened: true, cell: cell)
        }
        /// An address or a path: shortened in the middle, and less than other text.
        package static func place(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .left, mayBeShortened: true, isPlace: true, cell: cell)
        }
        /// Column of a text that users type again: always whole.
        package static func id(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .left, cell: cell)
        }
        /// A number: always whole.
        package static func right(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .right, cell: cell)
        }
        /// A number that can be left out.
        package static func spare(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .right, canBeSpared: true, cell: cell)
        }
        /// Text that can be shortened or left out.
        package static func extra(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .left, mayBeShortened: true, canBeSpared: true, cell: cell)
        }
        /// A time or its like, whole or not there.
        package static func whole(_ title: String, _ cell: @escaping Cell = { _ in "" }) -> Column {
            Column(title: title, alignment: .left, canBeSpared: true, cell: cell)
        }
    }

    private let columns: [Column]
    private let rows: [[String]]

    /// No column is shortened below this: an id or a time would say nothing any more.
    private static let leastWidth = 12
    private static let leastPlace = 32
    private static let gap = "  "

    /// - Parameter cells: rows with as many cells as there are columns.
    package init(_ columns: [Column], cells: [[String]]) {
        precondition(cells.allSatisfy { $0.count == columns.count }, "a row has one cell per column")
        self.columns = columns
        rows = cells.map { $0.map(\.printable) }
    }

    /// A row for each of `rows`; its cells are what the columns make of it.
    init(_ columns: [Column], of rows: [JSONValue]) {
        self.init(columns, cells: rows.map { row in columns.map { $0.cell(row) } })
    }

    var isEmpty: Bool { rows.isEmpty }

    /// The heading and the rows, without blanks at line ends.
    ///
    /// - Parameter width: columns of the terminal; nil for no limit.
    package func lines(_ palette: Palette, width: Int? = TerminalSize.forTables) -> [String] {
        let natural = columns.indices.map { index in
            rows.reduce(columns[index].title.width) { max($0, $1[index].width) }
        }
        let shown = width.map { kept(natural, in: $0) } ?? Array(columns.indices)
        let widths = width.map { fitted(natural, shown, into: $0) } ?? natural
        let heading = line(columns.map(\.title), shown, widths)
        return [palette.bold(heading)] + rows.map { line($0, shown, widths) }
    }

    /// The columns that have a place when all that may be are as short as they get; those to be spared go from the last.
    private func kept(_ natural: [Int], in width: Int) -> [Int] {
        var shown = columns.indices.filter { index in
            // A column of nothing only takes room.
            !columns[index].canBeSpared || rows.contains { !$0[index].isEmpty }
        }
        func total() -> Int {
            shown.reduce(0) { sum, index in
                let short = columns[index].mayBeShortened ? min(natural[index], least(index)) : natural[index]
                return sum + short
            } + Self.gap.count * (shown.count - 1)
        }
        while total() > width, let spared = shown.last(where: { columns[$0].canBeSpared }) {
            shown.removeAll { $0 == spared }
        }
        return shown
    }

    /// Takes a column's width from the widest column of text, again and again, until the row fits.
    private func fitted(_ natural: [Int], _ shown: [Int], into width: Int) -> [Int] {
        var widths = natural
        var excess = shown.reduce(0) { $0 + widths[$1] } + Self.gap.count * (shown.count - 1) - width
        while excess > 0 {
            let candidates = shown.filter { index in
                columns[index].mayBeShortened && widths[index] > least(index)
            }
            guard let widest = candidates.max(by: { widths[$0] < widths[$1] }) else { break }
            widths[widest] -= 1
            excess -= 1
        }
        return widths
    }

    /// Least width of a column that may be shortened.
    private func least(_ index: Int) -> Int {
        max(columns[index].isPlace ? Self.leastPlace : Self.leastWidth, columns[index].title.width)
    }

    private func shortened(_ cell: String, to width: Int, inTheMiddle: Bool) -> String {
        guard cell.width > width else { return cell }
        let end = inTheMiddle ? (width - 1) / 2 : 0
        return cell.prefix(width - 1 - end) + "…" + cell.suffix(end)
    }

    private func line(_ cells: [String], _ shown: [Int], _ widths: [Int]) -> String {
        let padded = shown.map { index in
            let cell = shortened(cells[index], to: widths[index], inTheMiddle: columns[index].isPlace)
            let gap = String(repeating: " ", count: widths[index] - cell.width)
            return columns[index].alignment == .right ? gap + cell : cell + gap
        }
        return padded.joined(separator: Self.gap).trimmedAtEnd
    }
}

package enum TerminalSize {
    /// Width of tables; nil in a pipe, and with `--wide`: then nothing is shortened.
    package static var forTables: Int? {
        guard !CommandLine.arguments.prefix(while: { $0 != "--" }).contains("--wide") else { return nil }
        return now?.columns
    }

    static var now: (columns: Int, rows: Int)? { of(STDOUT_FILENO) }

    /// Size of the terminal that a descriptor is; `COLUMNS` and `LINES` correct it. Nil in a pipe.
    static func of(_ descriptor: Int32) -> (columns: Int, rows: Int)? {
        guard isatty(descriptor) == 1 else { return nil }
        var size = winsize()
        let isKnown = ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        let environment = ProcessInfo.processInfo.environment
        func said(_ name: String) -> Int? { environment[name].flatMap(Int.init).flatMap { $0 > 0 ? $0 : nil } }
        guard let columns = said("COLUMNS") ?? (isKnown ? Int(size.ws_col) : nil) else { return nil }
        return (columns, said("LINES") ?? (size.ws_row > 0 ? Int(size.ws_row) : 24))
    }

    /// Whether the terminal can move its cursor.
    static var canBeDrawnOn: Bool {
        now != nil && !["", "dumb"].contains(ProcessInfo.processInfo.environment["TERM"] ?? "")
    }
}

extension JSONValue {
    /// Text of a member, or `missing` without one.
    func word(_ member: String, _ missing: String = "?") -> String { self[member]?.string ?? missing }
    /// Elements of a member that is a list; none without one.
    func items(_ member: String) -> [JSONValue] { self[member]?.array ?? [] }
    /// Texts of a member that is a list.
    func words(_ member: String) -> [String] { items(member).compactMap(\.string) }
    /// Digits of a member that is a whole number; empty without one.
    func digits(_ member: String) -> String { self[member]?.int64.map { String($0) } ?? "" }
    /// Time of a member on the clock; empty without one.
    func time(_ member: String) -> String { clockTime(word(member, "")) }
}

extension StringProtocol {
    /// Columns on a terminal, near enough: one per character.
    fileprivate var width: Int { count }

    fileprivate func wrappedLine(to width: Int) -> String {
        guard self.width > width else { return String(self) }
        let indent = String(prefix { $0 == " " || $0 == "-" })
        let hanging = String(repeating: " ", count: indent.count)
        var (lines, line, isQuoted) = ([String](), "", false)
        var word = ""
        func endOfLine() {
            lines.append(line.trimmedAtEnd)
            line = hanging
        }
        for character in self + " " {
            if character == "`" { isQuoted.toggle() }
            guard character == " ", !isQuoted else {
                word.append(character)
                continue
            }
            if line.width + word.width > width, line.width > hanging.width { endOfLine() }
            line += word + " "
            word = ""
        }
        lines.append((line + word).trimmedAtEnd)
        return lines.joined(separator: "\n")
    }
}

extension String {
    /// Lines of at most `width` columns, broken at blanks. What stands between backquotes is a command to copy: it
    /// stays whole, even where it is longer.
    package func wrapped(to width: Int?) -> String {
        guard let width else { return self }
        return split(separator: "\n", omittingEmptySubsequences: false).map { $0.wrappedLine(to: width) }
            .joined(separator: "\n")
    }

    var trimmedAtEnd: String {
        var text = self
        while text.last == " " { text.removeLast() }
        return text
    }
}
