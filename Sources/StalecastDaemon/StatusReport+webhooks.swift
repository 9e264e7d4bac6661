import StalecastWebhooks
import StalecastWire

extension StatusReport {
    /// `{"health","states","inFlight","waiting","delivered","failed",…}`.
    func webhooks() async -> JSONValue {
        let delivery = daemon.webhooks.delivery
        let tally = await delivery.tally()
        var states = JSONObject()
        for (name, count) in tally.targets.sorted(by: { $0.key < $1.key }) { states[name] = .int(count) }
        return [
            "health": .string(delivery.failure.map { "degraded: acknowledgements cannot be written: \($0)" } ?? "ok"),
            "states": .object(states), "inFlight": .int(tally.underWay.values.reduce(0, +)),
            "waiting": .int(tally.waiting), "delivered": .int(tally.delivered), "failed": .int(tally.failed),
            "coalesced": .int(tally.coalesced), "deadLetters": .int(tally.deadLetters),
            "longestLag": .int(tally.longestLag), "oldestPendingSeconds": .double(tally.oldestPending),
        ]
    }
}
