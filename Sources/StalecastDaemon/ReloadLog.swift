import StalecastWire
import Synchronization

/// Results of the reloads for monitoring, which the log line alone does not reach.
final class ReloadLog: Sendable {
    struct Outcome: Sendable {
        /// Time when the configuration in force was read.
        var succeededAt: Timestamp
        /// Why the newest one was refused; nil when it is in force.
        var problem: String?
    }

    /// Start of the daemon, whose configuration is the first one read.
    let startedAt: Timestamp
    private let state: Mutex<Outcome>

    init(startedAt: Timestamp) {
        self.startedAt = startedAt
        state = Mutex(Outcome(succeededAt: startedAt))
    }

    var newest: Outcome { state.withLock { $0 } }

    func succeeded(at time: Timestamp) { state.withLock { $0 = Outcome(succeededAt: time) } }

    func refused(_ problem: String) { state.withLock { $0.problem = problem } }

    /// `{"loadedAt","problem"}`, the second only after a reload that was refused.
    var json: JSONValue {
        let newest = newest
        var object: JSONObject = ["loadedAt": .string(newest.succeededAt.description)]
        object["problem"] = newest.problem.map(JSONValue.string)
        return .object(object)
    }
}
