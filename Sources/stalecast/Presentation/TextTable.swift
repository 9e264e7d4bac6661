/// Rows of text in columns that line up: names to the left, numbers to the right.
struct TextTable {
    enum Alignment { case left, right }

    /// A column's heading and which way its cells go.
    struct Column {
        let title: String
        let alignment: Alignment

        static func left(_ title: String) -> Column { Column(title: title, alignment: .left) }
        static func right(_ title: String) -> Column { Column(title: title, alignment: .right) }
    }

    private let columns: [Column]
    private var rows: [[String]] = []

    init(_ columns: Column...) { self.columns = columns }

    var isEmpty: Bool { rows.isEmpty }

    /// Adds a row; it has as many cells as there are columns.
    mutating func add(_ cells: String...) {
        precondition(cells.count == columns.count, "a row has one cell per column")
        rows.append(cells.map(\.printable))
    }

    /// The heading and the rows, without blanks at line ends.
    func lines(_ palette: Palette) -> [String] {
        let widths = columns.indices.map { index in
            rows.reduce(columns[index].title.width) { max($0, $1[index].width) }
        }
        let heading = line(columns.map(\.title), widths)
        return [palette.bold(heading)] + rows.map { line($0, widths) }
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        let padded = columns.indices.map { index in
            let gap = String(repeating: " ", count: widths[index] - cells[index].width)
            return columns[index].alignment == .right ? gap + cells[index] : cells[index] + gap
        }
        var text = padded.joined(separator: "  ")
        while text.last == " " { text.removeLast() }
        return text
    }
}

extension String {
    /// Columns on a terminal, near enough: one per character.
    fileprivate var width: Int { count }
}
