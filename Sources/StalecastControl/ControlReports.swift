package import StalecastHub
package import StalecastWire

/// Answers to what Control is asked about the rest of the daemon.
package struct ControlReports: Sendable {
    /// Subscribers by topic and transport (`sse`, `poll`, …), of one namespace or all; a topic without any may be
    /// missing.
    let presence: @Sendable (ProjectID, Namespace?) async -> [TopicName: [String: Int]]
    /// Counts of the streams that have a scope's newest message.
    let reach: @Sendable (Scope) async -> StreamCounts
    /// The body of `/metrics`, Prometheus text format 0.0.4.
    let metrics: @Sendable () async -> String
    /// The body of `/status`, an object.
    let status: @Sendable () async -> JSONValue
    /// The body of `/v1/timeline`, an object.
    let timeline: @Sendable () async -> JSONValue
    /// Reasons why the daemon is not ready, sentences without secrets; empty when it is.
    let readiness: @Sendable () async -> [String]
    /// Shortcomings of a daemon that is ready.
    let degraded: @Sendable () -> [String]

    package init(
        presence: @escaping @Sendable (ProjectID, Namespace?) async -> [TopicName: [String: Int]],
        reach: @escaping @Sendable (Scope) async -> StreamCounts = { _ in StreamCounts() },
        metrics: @escaping @Sendable () async -> String, status: @escaping @Sendable () async -> JSONValue,
        timeline: @escaping @Sendable () async -> JSONValue,
        readiness: @escaping @Sendable () async -> [String], degraded: @escaping @Sendable () -> [String] = { [] }
    ) {
        (self.presence, self.reach, self.metrics, self.status) = (presence, reach, metrics, status)
        (self.timeline, self.readiness, self.degraded) = (timeline, readiness, degraded)
    }
}
