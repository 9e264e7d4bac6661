import Foundation

/// Rows of text in columns that line up: names to the left, numbers to the right. On a terminal that is too narrow the
/// widest columns of text are shortened with `…`.
package struct TextTable {
    package enum Alignment { case left, right }

    /// A column's heading and which way its cells go.
    package struct Column {
        let title: String
        let alignment: Alignment

        package static func left(_ title: String) -> Column { Column(title: title, alignment: .left) }
        package static func right(_ title: String) -> Column { Column(title: title, alignment: .right) }
    }

    private let columns: [Column]
    private var rows: [[String]] = []

    /// No column is shortened below this: an id or a time would say nothing any more.
    private static let leastWidth = 12
    private static let gap = "  "

    package init(_ columns: Column...) { self.columns = columns }

    var isEmpty: Bool { rows.isEmpty }

    /// Adds a row; it has as many cells as there are columns.
    package mutating func add(_ cells: String...) {
        precondition(cells.count == columns.count, "a row has one cell per column")
        rows.append(cells.map(\.printable))
    }

    /// The heading and the rows, without blanks at line ends.
    ///
    /// - Parameter width: columns of the terminal; nil for no limit.
    package func lines(_ palette: Palette, width: Int? = TerminalWidth.forTables) -> [String] {
        let natural = columns.indices.map { index in
            rows.reduce(columns[index].title.width) { max($0, $1[index].width) }
        }
        let widths = width.map { fitted(natural, into: $0) } ?? natural
        let heading = line(columns.map(\.title), widths)
        return [palette.bold(heading)] + rows.map { line($0, widths) }
    }

    /// Takes a column's width from the widest column of text, again and again, until the row fits.
    private func fitted(_ natural: [Int], into width: Int) -> [Int] {
        var widths = natural
        var excess = widths.reduce(0, +) + Self.gap.count * (columns.count - 1) - width
        while excess > 0 {
            let candidates = columns.indices.filter { index in
                columns[index].alignment == .left && widths[index] > max(Self.leastWidth, columns[index].title.width)
            }
            guard let widest = candidates.max(by: { widths[$0] < widths[$1] }) else { break }
            widths[widest] -= 1
            excess -= 1
        }
        return widths
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        let padded = columns.indices.map { index in
            let cell = cells[index].width > widths[index] ? cells[index].prefix(widths[index] - 1) + "…" : cells[index]
            let gap = String(repeating: " ", count: widths[index] - cell.width)
            return columns[index].alignment == .right ? gap + cell : cell + gap
        }
        var text = padded.joined(separator: Self.gap)
        while text.last == " " { text.removeLast() }
        return text
    }
}

/// How wide tables may be.
package enum TerminalWidth {
    /// Of the terminal that standard output is; nil in a pipe, and with `--wide`: then nothing is shortened.
    package static var forTables: Int? {
        guard isatty(STDOUT_FILENO) == 1, !CommandLine.arguments.prefix(while: { $0 != "--" }).contains("--wide") else {
            return nil
        }
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }
}

extension StringProtocol {
    /// Columns on a terminal, near enough: one per character.
    fileprivate var width: Int { count }
}
