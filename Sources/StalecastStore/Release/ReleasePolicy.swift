import StalecastWire

/// Rules by which a staged version reaches its clients: how many at which time, and what stops it.
package struct ReleasePolicy: Sendable, Hashable {
    /// Shares of the clients in basis points, 1 to 10,000, strictly ascending; the last is 10,000. 1 to 20 of them.
    package internal(set) var stages = [100, 1000, 5000, Percentage.whole]
    /// Time of each stage but the last; 0 waits for an operator after each.
    package internal(set) var every: Duration = .seconds(300)
    /// Time for which all clients have the version before it counts as released; 0: none.
    package internal(set) var bake: Duration = .seconds(600)
    /// Clients that belong to the first stage whatever their bucket; at most 100 names.
    package internal(set) var first: [String] = []
    package internal(set) var anonymous = Anonymous.last
    package internal(set) var gates = Gates()
    package internal(set) var onTooLittle = OnTooLittle.go

    /// 1 %, 10 %, 50 %, 100 %, every 5 minutes, and 10 minutes of bake time.
    package static let standard = ReleasePolicy()

    /// Action of a gate that trips. Raw values are on the wire and in the database.
    package enum OnTrip: String, Sendable, CaseIterable { case pause, rollback }

    /// Action at the end of a stage in which too few clients were seen to judge. Raw values are on the wire.
    package enum OnTooLittle: String, Sendable, CaseIterable {
        case go
        /// Waits for an operator.
        case hold
    }

    /// Stage of clients that say no id. Raw values are on the wire and in the database.
    package enum Anonymous: String, Sendable, CaseIterable {
        /// Told with the last stage.
        case last
        /// Split by their addresses; right only where clients fetch without an id as well.
        case address
    }

    /// Limit on one signal, in basis points.
    package struct Gate: Sendable, Hashable {
        package internal(set) var limit: Int
        package internal(set) var onTrip: OnTrip
    }

    /// Signals that stop a release; nil switches one off.
    package struct Gates: Sendable, Hashable {
        /// Share of the told clients that report failure.
        package internal(set) var failed: Gate? = Gate(limit: 100, onTrip: .rollback)
        /// Share of the told clients that have not fetched. Off by default.
        package internal(set) var silent: Gate?
        /// Share of the told clients' fetches that fail.
        package internal(set) var fetchErrors: Gate? = Gate(limit: 200, onTrip: .rollback)
        /// Excess of streams lost by told clients over those lost by the others.
        package internal(set) var loss: Gate? = Gate(limit: 200, onTrip: .pause)
        /// Time in which a stream must come back, or else counts as lost.
        package internal(set) var lossReturn: Duration = .seconds(30)
        /// Query whose result must not be above a limit.
        package internal(set) var prometheus: Query?
        /// URL that must answer 200.
        package internal(set) var url: Probe?
    }

    /// Question to Prometheus.
    package struct Query: Sendable, Hashable {
        /// Address of the server, as `http://prometheus:9090`.
        package let url: String
        /// PromQL that gives a scalar or a vector, of which the largest sample counts.
        package let query: String
        package let limit: Double
        package internal(set) var onTrip: OnTrip
    }

    /// URL that says whether all is well.
    package struct Probe: Sendable, Hashable {
        package let url: String
        package internal(set) var onTrip: OnTrip
    }

    package static let maxStages = 20
    package static let maxFirst = 100
    package static let maxName = 128
    package static let maxURL = 2048
    package static let maxQuery = 1024
    /// Range of `every` and `bake`.
    package static let times = Duration.zero...Duration.seconds(30 * 86_400)
    package static let returnTimes = Duration.seconds(1)...Duration.seconds(600)
}
