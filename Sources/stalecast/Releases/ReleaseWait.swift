import Foundation
import StalecastWire

/// Follows a release to its end: a line for each event; on a terminal also what comes next, drawn over itself.
struct ReleaseWait {
    let api: TemplateAPI
    let output: Output
    /// Longest wait; nil: as long as it takes.
    var timeout: Duration?
    /// A pause is no end: an operator may let it go on.
    var outlastsPauses = false

    /// A daemon that restarts is away for so many looks at most.
    private static let absences = 60
    private static let pause: Duration = .seconds(1)

    /// - Returns: the release when it ended, or was paused; an open one when the time was up.
    func run(_ version: Int64) async throws(CommandFailure) -> ReleaseOutcome {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        let screen = Screen(output)
        defer { screen.clear() }
        var (progress, absences) = (ReleaseProgress(), 0)
        while true {
            do throws(CommandFailure) {
                let reading = try await api.release()
                absences = 0
                if reading.version == version {
                    try screen.show(progress.take(reading, output.palette), reading)
                }
                let isEnd = reading.version != version || !reading.isOpen || reading.isPaused && !outlastsPauses
                let isLate = deadline.map { ContinuousClock.now >= $0 } ?? false
                if isEnd || isLate { return ReleaseOutcome(reading, of: version) }
            } catch {
                absences += 1
                guard [.unreachable, .timedOut].contains(error.status), absences <= Self.absences else { throw error }
            }
            // Cancelled is what the next look says.
            try? await Task.sleep(for: min(Self.pause, deadline.map { $0 - .now } ?? Self.pause))
        }
    }

    /// Events to standard output, and below them one line on the terminal that moves.
    private struct Screen {
        private let output: Output
        private let isDrawn: Bool
        private static let width = 20

        init(_ output: Output) {
            self.output = output
            isDrawn = !output.isJSON && isatty(STDERR_FILENO) == 1 && TerminalSize.canBeDrawnOn
        }

        func show(_ lines: [String], _ reading: ReleaseReading) throws(CommandFailure) {
            guard !output.isJSON else { return }
            if !lines.isEmpty {
                clear()
                for line in lines { try output.line(line) }
            }
            guard isDrawn, reading.isOpen else { return }
            let next = reading.isPaused ? "paused" : reading.next()
            StandardError.write("\r\(reading.bar(width: Self.width))  \(next)\u{1B}[K")
        }

        func clear() { if isDrawn { StandardError.write("\r\u{1B}[K") } }
    }
}

/// Outcome of a release that was followed.
package struct ReleaseOutcome {
    let reading: ReleaseReading
    /// The version whose release was followed.
    private let version: Int64
    /// Action that was taken when the time was up.
    var ending: String?

    package init(_ reading: ReleaseReading, of version: Int64) {
        self.reading = reading
        self.version = version
    }

    package var sentence: String { reading.sentence() }

    /// Why the command fails; nil when every client is told, and the bake time is over.
    package var failure: CommandFailure? {
        if reading.version != version {
            return CommandFailure(
                .versionMismatch, "a release of version \(reading.version) has begun meanwhile",
                advice: "`stalecast audit` shows what became of version \(version).")
        }
        switch reading.state {
        case "RELEASED": return nil
        case "SUPERSEDED":
            return CommandFailure(
                .versionMismatch, sentence, advice: "`stalecast propagation` shows how far the newer version is.")
        case "ROLLED_BACK": return CommandFailure(.stopped, sentence)
        case "PAUSED": return CommandFailure(.stopped, sentence, advice: reading.advice)
        default:
            return CommandFailure(
                .timedOut, "the time is up: \(sentence)",
                advice: ending ?? "It goes on. `stalecast release status --follow` shows how.")
        }
    }
}

extension ReleaseReading {
    /// `10 %  ██░░░░░░`.
    fileprivate func bar(width: Int) -> String {
        let share = document["percent"].flatMap { Double($0.text()) } ?? 0
        let filled = Int(min(max(share, 0), 100) / 100 * Double(width))
        return Self.column(document["percent"]) + String(repeating: "█", count: filled)
            + String(repeating: "░", count: width - filled)
    }
}
