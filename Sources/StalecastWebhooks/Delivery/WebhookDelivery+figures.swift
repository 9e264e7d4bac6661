import StalecastOutbound
import StalecastWire

extension WebhookDelivery {
    /// What deliveries have come to, for metrics.
    package func tally() async -> DeliveryTally {
        await ask { scheduler in
            var tally = scheduler.tally
            for lane in Admission.Class.allCases {
                tally.underWay["\(lane)"] = scheduler.admission.underWay[lane.rawValue]
            }
            tally.underWay["slow"] = scheduler.admission.slow
            tally.waiting = scheduler.admission.waiting
            for name in ["active", "unverified", "paused", "failing", "disabled"] { tally.targets[name] = 0 }
            for target in scheduler.targets.values {
                tally.targets[target.state.name, default: 0] += 1
                if target.failures > 0 { tally.failing += 1 }
                for lane in target.lanes where target.isDeliverable { lane.add(to: &tally) }
            }
            return tally
        }
    }

    /// Attempts that were not logged for want of room.
    package var droppedAttempts: Int { journal.dropped }
    /// The longest transaction of the delivery database so far, in seconds, and how many there were.
    package var flushes: (longest: Double, count: Int) {
        let flushes = journal.flushes
        return (Double(flushes.longest) / 1e9, flushes.count)
    }
}

extension Lane {
    fileprivate func add(to tally: inout DeliveryTally) {
        tally.longestLag = max(tally.longestLag, lag)
        guard lag > 0, let newest else { return }
        let age = Double(Timestamp.now().microseconds - newest.change.metadata.updateTime.microseconds) / 1e6
        tally.oldestPending = max(tally.oldestPending, age)
    }
}
