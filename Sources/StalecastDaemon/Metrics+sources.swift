import StalecastSources
import StalecastWire

extension MetricsText {
    mutating func sources(_ sources: SourceParts) {
        let now = ContinuousClock.now
        let all = sources.watchers.map { (labels: $0.status.labels, status: $0.status) }
        let gauges: [(String, String, (SourceStatus) -> Double)] = [
            (
                "stalecast_source_age_seconds", "Since a look last showed what the origin has.",
                { $0.age(at: now) / .seconds(1) }
            ),
            ("stalecast_source_up", "1 while the last look succeeded.", { $0.problem == nil ? 1 : 0 }),
            (
                "stalecast_source_backoff_seconds", "Until the next look, while looks fail.",
                { status in
                    guard status.failing != nil, let next = status.nextPollAt else { return 0 }
                    return max(.zero, next - now) / .seconds(1)
                }
            ),
            ("stalecast_source_looks_total", "Looks at the origin.", { Double($0.counts.polls) }),
            ("stalecast_source_adopted_total", "Versions adopted.", { Double($0.counts.adopted) }),
            ("stalecast_source_problems_total", "Different problems met.", { Double($0.counts.problems) }),
            ("stalecast_source_triggers_total", "Requests to look now.", { Double($0.counts.triggers) }),
            (
                "stalecast_source_fence_timeouts_total", "Versions announced before the fence saw them.",
                { Double($0.counts.fenceTimeouts) }
            ),
            (
                "stalecast_source_fence_wait_seconds_total", "Waited at the fence by versions it saw.",
                { $0.counts.fenceWait / .seconds(1) }
            ),
        ]
        for (name, help, value) in gauges {
            family(name, help, all.map { ($0.labels, value($0.status)) })
        }
        family(
            "stalecast_source_failures_total", "Looks that gave nothing, by reason.",
            all.flatMap { labels, status in
                status.counts.failed.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                    (labels + [("reason", $0.key.rawValue)], Double($0.value))
                }
            })
        triggers(sources.service.figures)
    }

    private mutating func triggers(_ figures: TriggerService.Figures) {
        let outcomes =
            TriggerService.Receipt.Result.allCases.map { ($0.rawValue, figures.events[$0] ?? 0) } + [
                ("unauthenticated", figures.unauthenticated), ("malformed", figures.malformed),
            ]
        family(
            "stalecast_trigger_events_total", "Inbound events, and posts that were none, by result.", by: "result",
            outcomes)
    }
}

extension SourceStatus {
    fileprivate var labels: [(String, String)] { scope.labels + [("kind", kind.rawValue)] }
}
