import Foundation

/// One line on standard error that is written over and over while a load runs; nothing when that is no terminal.
struct LoadProgress: Sendable {
    private static let barWidth = 24
    /// A longer line would wrap and could not be written over.
    private static let maxWidth = 79

    private let isShown = isatty(STDERR_FILENO) == 1

    func show(_ text: String) {
        if isShown { write("\r\u{1B}[2K" + String(text.prefix(Self.maxWidth))) }
    }

    /// `connected ███████▍      4210/10000  12300/s`
    func show(_ label: String, _ count: Int, of total: Int, _ remark: String = "") {
        let bar = LatencyHistogram.bar(count, of: max(total, 1), Self.barWidth)
        show("\(label) \(bar) \(count)/\(total)  \(remark)")
    }

    /// Removes the line, so that results begin on an empty one.
    func clear() { if isShown { write("\r\u{1B}[2K") } }

    private func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}
