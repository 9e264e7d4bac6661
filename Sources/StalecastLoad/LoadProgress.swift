import Foundation

/// One line on standard error that is written over and over while a load runs; nothing when that is no terminal.
package struct LoadProgress: Sendable {
    package init() {}

    private static let barWidth = 24
    /// A longer line would wrap and could not be written over. Asked each time: windows are resized.
    private static var maxWidth: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 1 else { return 79 }
        return Int(size.ws_col) - 1
    }

    private let isShown = isatty(STDERR_FILENO) == 1

    package func show(_ text: String) {
        if isShown { write("\r\u{1B}[2K" + String(text.prefix(Self.maxWidth))) }
    }

    /// `connected ███████▍      4210/10000  12300/s`
    package func show(_ label: String, _ count: Int, of total: Int, _ remark: String = "") {
        let bar = LatencyHistogram.bar(count, of: max(total, 1), Self.barWidth)
        show("\(label) \(bar) \(count)/\(total)  \(remark)")
    }

    /// Removes the line, so that results begin on an empty one.
    package func clear() { if isShown { write("\r\u{1B}[2K") } }

    private func write(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}
