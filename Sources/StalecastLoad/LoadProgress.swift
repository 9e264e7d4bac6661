import Foundation
import Synchronization
import StalecastWire

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
        if isShown { StandardError.write("\r\u{1B}[2K" + String(text.prefix(Self.maxWidth))) }
    }

    /// `connected ███████▍      4210/10000  12300/s`
    package func show(_ label: String, _ count: Int, of total: Int, _ remark: String = "") {
        let bar = LatencyHistogram.bar(count, of: max(total, 1), Self.barWidth)
        show("\(label) \(bar) \(count)/\(total)  \(remark)")
    }

    /// Removes the line, so that results begin on an empty one.
    package func clear() { if isShown { StandardError.write("\r\u{1B}[2K") } }
}

/// Ctrl-C while a load runs: the first asks it to stop and report, the second ends the process at once.
package enum LoadInterrupt {
    /// The exit code of a process ended by SIGINT, as shells count.
    package static let exitCode: Int32 = 130

    private static let asked = Atomic<Bool>(false)

    package static var isAsked: Bool { asked.load(ordering: .acquiring) }

    package static func watch() {
        signal(SIGINT) { _ in
            if LoadInterrupt.asked.exchange(true, ordering: .acquiringAndReleasing) { _exit(LoadInterrupt.exitCode) }
        }
    }
}

package struct LoadProblem: Error, Sendable {
    /// Kind of failure, from which the command line makes its exit code.
    package enum Kind: Sendable { case usage, refused, unreachable }

    package let kind: Kind
    /// A sentence without its full stop, beginning with a lower-case letter.
    package let sentence: String
    /// Step that helps; nil when none is known.
    package let advice: String?

    init(_ kind: Kind, _ sentence: String, advice: String? = nil) {
        (self.kind, self.sentence, self.advice) = (kind, sentence, advice)
    }
}
