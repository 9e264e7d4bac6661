import StalecastOutbound
import StalecastWebhooks

extension MetricsText {
    /// Writes the counts of deliveries to webhooks, and of the engine that sends them.
    mutating func webhooks(_ webhooks: WebhookParts) async {
        let tally = await webhooks.delivery.tally()
        outcomes(tally)
        times(tally)
        backlog(tally)
        acknowledgements(webhooks.delivery)
        engine(webhooks.engine.figures, tally)
    }

    private mutating func outcomes(_ tally: DeliveryTally) {
        family("stalecast_webhook_attempts_total", "Attempts by class of outcome.", by: "class", sorted: tally.attempts)
        family(
            "stalecast_webhook_deliveries_total", "Attempts that delivered, and that did not.", by: "result",
            [("delivered", tally.delivered), ("failed", tally.failed)])
        single("stalecast_webhook_coalesced_total", "Versions folded into a newer one.", tally.coalesced)
        single("stalecast_webhook_dead_letters_total", "Messages that were given up.", tally.deadLetters)
        single(
            "stalecast_webhook_stuck_total",
            "Webhooks found owed something that no timer would have sent: a defect, and repaired.", tally.stuck)
    }

    private mutating func times(_ tally: DeliveryTally) {
        histogram(
            "stalecast_webhook_publish_to_delivered_seconds",
            "From a version's commit to the 2xx, of webhooks that had answered the time before.", tally.latencyOfHealthy
        )
        histogram(
            "stalecast_webhook_publish_to_delivered_all_seconds",
            "From a version's commit to the 2xx, of all webhooks.", tally.latency)
        let phases = tally.phases
        family(
            "stalecast_webhook_attempt_phase_seconds_total", "Time that attempts spent in each phase.", by: "phase",
            [
                ("queue", phases.queue), ("dns", phases.dns), ("connect", phases.connect), ("tls", phases.tls),
                ("server", phases.server),
            ].map { ($0, Double($1) / 1e6) })
    }

    private mutating func backlog(_ tally: DeliveryTally) {
        family("stalecast_webhooks", "Webhooks by state.", by: "state", sorted: tally.targets)
        family(
            "stalecast_webhook_in_flight", "Attempts under way, by the kind of place they take.", by: "lane",
            sorted: tally.underWay)
        single("stalecast_webhook_ready", "Webhooks that wait for a place.", tally.waiting)
        single("stalecast_webhook_failing", "Webhooks whose last attempt failed.", tally.failing)
        single("stalecast_webhook_longest_lag_versions", "The most versions one webhook is behind.", tally.longestLag)
        single(
            "stalecast_webhook_oldest_pending_seconds", "Age of the oldest version that is owed.", tally.oldestPending)
    }

    private mutating func acknowledgements(_ delivery: WebhookDelivery) {
        single(
            "stalecast_webhook_database_writable", "0 while acknowledgements are kept in memory only.",
            delivery.failure == nil ? 1 : 0)
        single("stalecast_webhook_flushes_total", "Transactions of the delivery database.", delivery.flushes.count)
        single("stalecast_webhook_longest_flush_seconds", "The longest of them so far.", delivery.flushes.longest)
        single(
            "stalecast_webhook_unlogged_attempts_total", "Attempts not listed for want of room.",
            delivery.droppedAttempts)
    }

    private mutating func engine(_ figures: OutboundEngine.Figures, _ tally: DeliveryTally) {
        family(
            "stalecast_webhook_connections_total", "Connections that requests went over.", by: "kind",
            [("new", figures.newConnections), ("reused", figures.reusedConnections)])
        let full = figures.handshakes - min(figures.handshakes, figures.resumedHandshakes)
        family(
            "stalecast_webhook_handshakes_total", "TLS handshakes.", by: "kind",
            [("full", full), ("resumed", figures.resumedHandshakes)])
        single("stalecast_webhook_open_connections", "Connections held now.", figures.connections)
        single("stalecast_webhook_blocked_total", "Connections the address guard refused.", figures.blocked)
        single("stalecast_webhook_loop_cpu_seconds_total", "CPU time of the sending thread.", Double(figures.cpu) / 1e9)
        single(
            "stalecast_webhook_loop_longest_turn_seconds", "The longest turn of the sending thread so far.",
            Double(figures.longestTurn) / 1e9)
    }
}
