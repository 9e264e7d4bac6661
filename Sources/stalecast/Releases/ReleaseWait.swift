import Foundation
import StalecastOutbound
package import StalecastWire

/// Follows a release to its end over the server's stream of its changes: a line for each event; on a terminal also what
/// comes next, drawn over itself each second.
struct ReleaseWait {
    let api: TemplateAPI
    let output: Output
    /// Longest wait; nil: as long as it takes.
    var timeout: Duration?
    /// A pause is no end: an operator may let it go on.
    var outlastsPauses = false

    /// A daemon that restarts is away for so many attempts at most.
    private static let absences = 60
    private static let pause: Duration = .seconds(1)

    private enum Step: Sendable {
        case seen(ReleaseReading)
        case failed(CommandFailure)
        /// A second has passed, or the time is up.
        case tick
    }

    /// - Returns: the release when it ended, or was paused; an open one when the time was up.
    func run(_ version: Int64) async throws(CommandFailure) -> ReleaseOutcome {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        let (steps, feed) = AsyncStream.makeStream(of: Step.self, bufferingPolicy: .bufferingNewest(16))
        let result: Result<ReleaseOutcome, CommandFailure> = await withTaskGroup(of: Void.self) { group in
            group.addTask { await watch(feed) }
            group.addTask { await tick(feed, until: deadline) }
            defer { group.cancelAll() }
            do throws(CommandFailure) { return .success(try await end(of: version, steps, deadline)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func end(
        of version: Int64, _ steps: AsyncStream<Step>, _ deadline: ContinuousClock.Instant?
    ) async throws(CommandFailure) -> ReleaseOutcome {
        let screen = Screen(output)
        defer { screen.clear() }
        var (progress, newest) = (ReleaseProgress(), ReleaseReading?.none)
        for await step in steps {
            switch step {
            case .seen(let reading): newest = reading
            case .failed(let failure): throw failure
            case .tick: break
            }
            let isLate = deadline.map { ContinuousClock.now >= $0 } ?? false
            guard let reading = newest else {
                if isLate { break }
                continue
            }
            if reading.version == version { try screen.show(progress.take(reading, output.palette), reading) }
            let isEnd = reading.version != version || !reading.isOpen || reading.isPaused && !outlastsPauses
            if isEnd || isLate { return ReleaseOutcome(reading, of: version) }
        }
        return ReleaseOutcome(try await api.release(), of: version)
    }

    private func tick(_ feed: AsyncStream<Step>.Continuation, until deadline: ContinuousClock.Instant?) async {
        while !Task.isCancelled {
            let left = deadline.map { max($0 - .now, .milliseconds(50)) } ?? Self.pause
            // Cancelled is what the loop's condition says.
            try? await Task.sleep(for: min(Self.pause, left))
            feed.yield(.tick)
        }
    }

    /// Passes on what the server tells, over as many connections as it takes.
    private func watch(_ feed: AsyncStream<Step>.Continuation) async {
        var absences = 0
        while !Task.isCancelled {
            var failure = CommandFailure(noAnswerFrom: api.client.address, OutboundFailure(.reset))
            do {
                try await api.events("/release:watch") { _, json in
                    absences = 0
                    feed.yield(.seen(ReleaseReading(json)))
                    return true
                }
            } catch let refusal as CommandFailure {
                failure = refusal
            } catch {
                failure = CommandFailure(noAnswerFrom: api.client.address, error)
            }
            absences += 1
            guard [.unreachable, .timedOut].contains(failure.status), absences <= Self.absences else {
                feed.yield(.failed(failure))
                return
            }
            // Cancelled is what the loop's condition says.
            try? await Task.sleep(for: Self.pause)
        }
    }

    /// Events to standard output, and below them one line on the terminal that moves.
    private struct Screen {
        private let output: Output
        private let isDrawn: Bool

        init(_ output: Output) {
            self.output = output
            isDrawn = !output.isJSON && isatty(STDERR_FILENO) == 1 && TerminalSize.canBeDrawnOn
        }

        func show(_ lines: [String], _ reading: ReleaseReading) throws(CommandFailure) {
            guard !output.isJSON else { return }
            if !lines.isEmpty {
                clear()
                try output.lines(lines)
            }
            guard isDrawn, reading.isOpen else { return }
            StandardError.write("\r\(reading.liveLine(columns: TerminalSize.of(STDERR_FILENO)?.columns ?? 80))\u{1B}[K")
        }

        func clear() { if isDrawn { StandardError.write("\r\u{1B}[K") } }
    }
}

package struct ReleaseOutcome {
    let reading: ReleaseReading
    private let version: Int64
    /// Action that was taken when the time was up.
    var ending: String?

    package init(_ reading: ReleaseReading, of version: Int64) {
        self.reading = reading
        self.version = version
    }

    package var sentence: String { reading.sentence() }

    /// Failure of the command; nil when every client is told, and the bake time is over.
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
    /// `10 %  ██░░░░░░  next step in 4m; told 120, fetched 118, failed 0, lost 0.2 %, others 0.1 %`, with as many
    /// figures as fit into one line.
    package func liveLine(columns: Int, at now: Timestamp = .now()) -> String {
        var line = bar(width: 20) + "  " + (isPaused ? "paused" : next(at: now))
        for (place, figure) in figures.enumerated() {
            let longer = line + (place == 0 ? "; " : ", ") + figure
            if longer.count >= columns { break }
            line = longer
        }
        return line
    }

    /// `10 %  ██░░░░░░`.
    private func bar(width: Int) -> String {
        let share = document["percent"].flatMap { Double($0.text()) } ?? 0
        let filled = Int(min(max(share, 0), 100) / 100 * Double(width))
        return Self.column(document["percent"]) + String(repeating: "█", count: filled)
            + String(repeating: "░", count: width - filled)
    }
}
