package import StalecastWire

/// Purpose of a call to etcd.
package enum EtcdPurpose: String, Sendable, CaseIterable {
    case append, read, check, prune, content, record, lease, kept, watch, status
    case logMetadata = "charter"
    case signIn = "sign_in"
    case other
}

/// Counts and times of calls to etcd.
package struct EtcdFigures: Sendable {
    package enum Outcome: String, Sendable, CaseIterable {
        case ok
        /// Certainly nothing was done.
        case denied
        /// The call may have been carried out, or may be later.
        case unknown
    }

    /// Calls of one purpose.
    package struct Calls: Sendable {
        package private(set) var outcomes: [Outcome: Int] = [:]
        /// Seconds from the call, with the connection where there was none yet, to its answer or failure.
        package private(set) var seconds = Histogram(bounds: [
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
        ])

        /// Counts a call, unless its caller was cancelled: that is no fault of etcd.
        mutating func count(_ failure: EtcdFailure?, seconds: Double) {
            if case .cancelled = failure { return }
            outcomes[failure.map { $0.isCertain ? .denied : .unknown } ?? .ok, default: 0] += 1
            self.seconds.record(seconds: seconds)
        }
    }

    package internal(set) var calls: [EtcdPurpose: Calls] = [:]
    /// Times that calls went on to the next member.
    package internal(set) var moves = 0
}
