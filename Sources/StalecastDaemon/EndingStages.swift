/// Stages of the daemon's end after SIGTERM or SIGINT, in their order, with the time that each may take and the
/// function that does it. The order is that of `Daemon.services(of:)`, in reverse.
///
/// 1. Readiness goes off, `endpoints.json` is removed, systemd is told: at once. `Parts.untilEnding`
/// 2. Control finishes requests that have begun, within ``controlRequests``. `ControlServer.run`
/// 3. Sources stop: ``requests`` for requests that have begun. `Parts.watchSources`
/// 4. Webhooks begin to end: a node of a cluster hands them over for ``handOver``, then attempts that have begun may
///    take ``webhookAttempts``. The next stage does not wait for it. `Parts.deliverWebhooks`
/// 5. Edge drains its streams over `shutdown.drain`, 5 s unless configured. `Parts.serveEdge`
/// 6. Key sets and the hook stop, then the cluster. `KeySetKeeper.run`, `HookAsker.run`, `ClusterParts.run`
/// 7. The store closes. `Daemon.run`
///
/// All of them together may take ``services``. `ProcessSignals` ends the process after ``EndingState/patience``,
/// whatever hangs.
enum EndingStages {
    /// Deadline for the rest of a request's body to arrive at Control; then the request is refused.
    static let controlRequests: Duration = .seconds(5)
    /// Deadline of attempts of webhooks. An attempt that is cut off is sent after the next start, so that one slow receiver
    /// does not hold up a restart.
    static let webhookAttempts: Duration = .seconds(2)
    /// Deadline for other nodes to take over the webhooks of this one.
    static let handOver: Duration = .seconds(5)
    /// Deadline of requests to origins of sources, key sets and the hook.
    static let requests: Duration = .milliseconds(200)
    /// Deadline of all services. Two seconds less than `ProcessSignals` waits, which needs no thread of the pool.
    static let services: Duration = .seconds(12)
}
