import ArgumentParser
import Foundation
import StalecastLoad

/// Ends a load, after its report was written.
enum LoadEnding {
    /// Ends with 130 after Ctrl-C, with `failure` when there is one, else with 0.
    static func end(_ failure: CommandFailure?) throws {
        if LoadInterrupt.isAsked { throw ExitCode(LoadInterrupt.exitCode) }
        if let failure { throw failure }
    }

    /// Error that broke off a measurement, as the command's failure.
    static func failure(_ error: any Error) -> CommandFailure {
        switch error {
        case let failure as CommandFailure: failure
        case let problem as LoadProblem: CommandFailure(problem)
        default: CommandFailure(.refused, "the load broke off: \(error)")
        }
    }

    /// Failure when not all of `asked` subscribers connected; nil when they did.
    static func shortfall(_ result: LoadSession.Connected, topic: String) -> CommandFailure? {
        guard !result.isComplete else { return nil }
        let missing = result.asked - result.ready
        switch result.counts.firstFailure {
        case .status(404)?:
            return CommandFailure(
                .notFound, "the server knows no such topic: \(topic)",
                advice: "`stalecast topics` lists those it knows.")
        case .system(ECONNREFUSED)? where result.ready == 0:
            return CommandFailure(.unreachable, "no server answers any more (connection refused)")
        case let failure?:
            return CommandFailure(
                .refused, "\(missing) of \(result.asked) subscribers did not connect: \(failure.sentence)",
                advice: "The daemon has a connection cap and a descriptor limit; `stalecast status` shows refusals.")
        case nil:
            return CommandFailure(
                .timedOut, "the time was up before \(missing) of \(result.asked) subscribers had connected",
                advice: "--timeout gives them longer.")
        }
    }
}

/// Result of `step`, with its problem as the command's failure.
func loading<Value>(_ step: @autoclosure () throws(LoadProblem) -> Value) throws(CommandFailure) -> Value {
    do { return try step() } catch { throw CommandFailure(error) }
}

extension CommandFailure {
    init(_ problem: LoadProblem) {
        let status: ExitStatus =
            switch problem.kind {
            case .usage: .usage
            case .refused: .refused
            case .unreachable: .unreachable
            }
        self.init(status, problem.sentence, advice: problem.advice)
    }
}
