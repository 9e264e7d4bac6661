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

    private var held: (token: Token, until: Duration)?

    package init(
        lifetime: Duration = .seconds(45), renewal: Duration = .seconds(10), margin: Duration = .seconds(2)
    ) {
        (self.lifetime, self.renewal, self.margin) = (lifetime, renewal, margin)
    }

    /// The ownership was taken.
    ///
    /// - Parameter sent: when the last renewal of its lease that is known to have arrived was sent.
    package mutating func taken(_ token: Token, sent: Duration) { held = (token, sent + lifetime) }

    /// A renewal arrived.
    ///
    /// - Parameter sent: when it was sent: the log began to count later than that.
    package mutating func renewed(sent: Duration) {
        if let known = held { held = (known.token, max(known.until, sent + lifetime)) }
    }

    /// Time until the lease ends, by the last renewal that is known to have arrived; nil while nothing is held.
    package func left(now: Duration) -> Duration? { held.map { $0.until - now } }

    /// The token under which an attempt that takes at most `timeout` may begin now; nil when it may outlive the lease.
    package func permit(_ timeout: Duration, now: Duration) -> Token? {
        guard let held, now + timeout + margin <= held.until else { return nil }
        return held.token
    }
}
