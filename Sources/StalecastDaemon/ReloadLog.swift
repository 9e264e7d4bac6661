import Foundation
import StalecastWire
import Synchronization

/// Results of the reloads for monitoring, which the log line alone does not reach.
final class ReloadLog: Sendable {
    struct Outcome: Sendable {
        /// Time when the configuration in force was read.
        var succeededAt: Timestamp
        /// Reason why the newest configuration was refused; nil when it is in force.
        var problem: String?
        /// Absolute path of the file that the problem is in; nil when it is in none.
        var file: String?
        /// Keys that have another value in the file than in force, until a restart.
        var waiting: [String] = []
    }

    /// Start of the daemon, whose configuration is the first one read.
    let startedAt: Timestamp
    private let state: Mutex<Outcome>

    init(startedAt: Timestamp) {
        self.startedAt = startedAt
        state = Mutex(Outcome(succeededAt: startedAt))
    }

    var newest: Outcome { state.withLock { $0 } }

    func succeeded(at time: Timestamp, waiting: [String]) {
        state.withLock { $0 = Outcome(succeededAt: time, waiting: waiting) }
    }

    func refused(_ error: any Error) {
        let file = (error as? ConfigurationProblems)?.file.map { URL(fileURLWithPath: $0).path }
        state.withLock { ($0.problem, $0.file) = ("\(error)", file) }
    }

    /// `{"loadedAt","problem","file","waitingForRestart"}`; `problem` only after a reload that was refused, `file` only where
    /// the problem is in a file, `waitingForRestart` only where it has keys.
    var json: JSONValue {
        let newest = newest
        return [
            "loadedAt": .string(newest.succeededAt.description), "problem": newest.problem.map(JSONValue.string),
            "file": newest.file.map(JSONValue.string),
            "waitingForRestart": newest.waiting.isEmpty ? nil : .texts(newest.waiting),
        ]
    }
}
