import StalecastWire

/// What an attempt is about.
enum Job {
    case newest(Heard)
    case owed(Owed)
    case notice(Target.Notice)

    var heard: Heard? {
        switch self {
        case .newest(let heard): heard
        case .owed(let owed): owed.heard
        case .notice: nil
        }
    }

    /// As attempts are listed.
    var kind: String {
        if case .notice(let notice) = self { return notice.event.type }
        return "stale"
    }
}

/// An attempt under way.
final class Run {
    let target: Target
    let lane: Lane?
    let job: Job
    /// From 1, per message.
    let number: Int
    let place: Admission.Class
    let startedAt: Timestamp
    /// Monotonic.
    let started: UInt64
    var messageID = ""
    var isSlow = false
    var isOver = false

    init(
        _ target: Target, _ lane: Lane?, _ job: Job, number: Int, place: Admission.Class, at time: Timestamp,
        started: UInt64
    ) {
        self.target = target
        self.lane = lane
        self.job = job
        self.number = number
        self.place = place
        startedAt = time
        self.started = started
    }
}

extension Target {
    /// The earliest moment at which something can be sent; nil when nothing is owed or an answer is awaited first.
    func nextStart() -> UInt64? {
        guard isDeliverable, inFlight < width else { return nil }
        var soonest = noticeStart ?? .max
        for lane in lanes { soonest = min(soonest, lane.nextStart() ?? .max) }
        return soonest == .max ? nil : max(soonest, notBefore)
    }

    private var noticeStart: UInt64? { isNoticeInFlight ? nil : notices.first?.notBefore }

    /// Takes what is to be sent now.
    func takeJob(at now: UInt64) -> (lane: Lane?, job: Job, number: Int)? {
        guard isDeliverable, inFlight < width, notBefore <= now else { return nil }
        for (index, lane) in lanes.enumerated() {
            guard let job = lane.takeJob(at: now) else { continue }
            // The next lane is asked first the next time.
            if lanes.count > 1 { lanes.append(lanes.remove(at: index)) }
            return (lane, job.0, job.1)
        }
        guard let start = noticeStart, start <= now else { return nil }
        isNoticeInFlight = true
        notices[0].attempts += 1
        return (nil, .notice(notices[0]), notices[0].attempts)
    }
}

extension Lane {
    fileprivate func nextStart() -> UInt64? {
        switch target.mode {
        case .latest: inFlight == 0 && owesNewest ? notBefore : nil
        case .fifo: inFlight == 0 ? owed.first.map { max($0.notBefore, notBefore) } : nil
        case .all: owed.lazy.filter { !$0.isInFlight }.map(\.notBefore).min().map { max($0, notBefore) }
        }
    }

    fileprivate func takeJob(at now: UInt64) -> (Job, Int)? {
        guard let start = nextStart(), start <= now else { return nil }
        inFlight += 1
        notBefore = now + target.minInterval
        if target.mode == .latest, let newest {
            attempts = (newest.change.sequence, attempts.sequence == newest.change.sequence ? attempts.count + 1 : 1)
            return (.newest(newest), attempts.count)
        }
        guard let index = owed.firstIndex(where: { !$0.isInFlight && $0.notBefore <= now }) else { return nil }
        owed[index].isInFlight = true
        owed[index].attempts += 1
        if owed[index].firstAt == 0 { owed[index].firstAt = now }
        return (.owed(owed[index]), owed[index].attempts)
    }
}
