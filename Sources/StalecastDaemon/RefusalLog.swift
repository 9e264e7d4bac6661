import Logging
import ServiceLifecycle
import StalecastControl
import StalecastEdge
import StalecastHub

/// Says in the log who was turned away, from what is counted anyway: at most one line per reason and period, however
/// many knock.
final class RefusalLog: Service {
    private static let period: Duration = .seconds(5)

    private let edge: EdgeServer
    private let logger: Logger
    private let control: ControlTally

    init(edge: EdgeServer, control: ControlTally, logger: Logger) {
        self.edge = edge
        self.control = control
        self.logger = logger
    }

    func run() async throws {
        var counts = RefusalCounts(totals())
        let periods = AsyncTimer(period: Self.period).cancelOnGracefulShutdown()
        for await _ in periods { write(counts.rises(to: totals())) }
        write(counts.rises(to: totals()))
    }

    private func write(_ rises: [(reason: String, count: Int)]) {
        for rise in rises {
            logger.warning("requests refused", metadata: ["reason": "\(rise.reason)", "count": "\(rise.count)"])
        }
    }

    /// How often each reason has counted since the start.
    private func totals() -> [String: Int] {
        let tally = edge.tally
        let strangers = control.requests.filter { $0.kind.status == 401 }.reduce(0) { $0 + $1.count }
        var totals = ["control: no token, or a wrong one": strangers]
        if let keys = tally.fetches.refused[403] { totals["edge: no API key, or an unknown one"] = keys }
        for (reason, count) in tally.refused { totals["edge: \(reason.sentence)"] = count }
        return totals
    }
}

/// Totals that only grow, and what has been added to them.
package struct RefusalCounts {
    private var last: [String: Int]

    package init(_ totals: [String: Int]) { last = totals }

    /// What rose since the last call, by name.
    package mutating func rises(to totals: [String: Int]) -> [(reason: String, count: Int)] {
        defer { last = totals }
        return totals.map { ($0.key, $0.value - (last[$0.key] ?? 0)) }.filter { $0.1 > 0 }.sorted { $0.0 < $1.0 }
    }
}

extension DropReason {
    /// Of a connection that was refused; names the key that an operator may raise.
    fileprivate var sentence: String {
        switch self {
        case .capacity: "as many connections as edge.maxConnections allows"
        case .addressCapacity: "as many connections of one address as edge.maxConnectionsPerAddress allows"
        default: rawValue
        }
    }
}
