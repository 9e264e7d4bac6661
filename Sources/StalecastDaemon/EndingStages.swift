/// Stages of the daemon's end after SIGTERM or SIGINT, in their order, and the time that each may take:
///
/// 1. readiness goes off, `endpoints.json` goes, systemd is told: at once;
/// 2. Control finishes requests that have begun (`ConnectionLimits.drainTimeout`, 5 s);
/// 3. sources stop: ``requests`` for what is under way;
/// 4. webhooks begin to end: a node of a cluster hands them over for ``handOver``, then ``webhookAttempts`` for what is
///    under way; the next stage does not wait for it;
/// 5. Edge drains its streams over `shutdown.drain`, 5 s unless configured;
/// 6. key sets and the hook stop, then the cluster, then the store closes.
///
/// All of them together may take ``services``; the process is gone after ``EndingState/patience``, whatever hangs.
enum EndingStages {
    /// Deadline of attempts of webhooks. An attempt that is cut off is owed still and sent after the next start, so one slow
    /// receiver need not hold up a restart.
    static let webhookAttempts: Duration = .seconds(2)
    /// Deadline for other nodes to take over the webhooks of this one.
    static let handOver: Duration = .seconds(5)
    /// Deadline of requests to origins of sources, key sets and the hook.
    static let requests: Duration = .milliseconds(200)
    /// Deadline of all services. Two seconds less than `ProcessSignals` waits, which needs no thread of the pool.
    static let services: Duration = .seconds(12)
}
