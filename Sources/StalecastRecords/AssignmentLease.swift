/// Lease of an assignment's owner, counted so that it ends here before it ends at the log, whatever answers take. Times
/// are of a clock that only goes forward, and goes on while the machine sleeps.
package struct AssignmentLease: Sendable {
    /// The number with which the ownership was taken; never twice, and higher each time.
    package typealias Token = Int64

    /// Time that the log keeps the ownership after a renewal. Default 45 s.
    package let lifetime: Duration
    /// Time between two renewals. Default 10 s.
    package let renewal: Duration
    /// An attempt must end this long before the lease does. Default 2 s.
    package let margin: Duration

    private enum Phase {
        case none
        case held(Token, until: Duration)
    }

    private var phase = Phase.none

    package init(
        lifetime: Duration = .seconds(45), renewal: Duration = .seconds(10), margin: Duration = .seconds(2)
    ) {
        self.lifetime = lifetime
        self.renewal = renewal
        self.margin = margin
    }

    /// The ownership was taken.
    ///
    /// - Parameter sent: when the last renewal of its lease that is known to have arrived was sent.
    package mutating func taken(_ token: Token, sent: Duration) { phase = .held(token, until: sent + lifetime) }

    /// A renewal arrived.
    ///
    /// - Parameter sent: when it was sent: the log began to count later than that.
    package mutating func renewed(sent: Duration) {
        guard case .held(let token, let until) = phase else { return }
        phase = .held(token, until: max(until, sent + lifetime))
    }

    /// Until it ends, by the last renewal that is known to have arrived; nil while nothing is held.
    package func left(now: Duration) -> Duration? { if case .held(_, let until) = phase { until - now } else { nil } }

    /// The log says that it is another owner's or free, or it was given away.
    package mutating func lost() { phase = .none }

    /// The token under which an attempt that takes at most `timeout` may begin now; nil when it may outlive the lease.
    package func permit(_ timeout: Duration, now: Duration) -> Token? {
        guard case .held(let token, let until) = phase, now + timeout + margin <= until else { return nil }
        return token
    }
}
