/// Judges whether a staged version makes clients go away: compares addresses whose streams were told of it with the
/// others.
///  The unit is an address, so that an office behind one address counts once. Time runs in rounds of half the return
/// time. An address's share in a round is known when the return time has passed since the round's end: streams that
/// ended in the round, less those that came back, of those that were open or came in it. Told and untold addresses have
/// the same rounds, so that what happens to both, such as a network that fails, does not count. A clock and randomness
/// are not needed: facts come in order, and only ``judge(at:)`` moves the time.
package struct LossGate: Sendable {
    package enum Cause: Sendable {
        /// The client closed, broke off, or stopped answering.
        case byPeer
        /// A drain, a rotation, or a refusal by this daemon: the version did not cause it.
        case byUs
    }

    /// Mean shares are those of the newest round that was judged.
    package enum Verdict: Sendable, Hashable {
        /// Too few addresses of either kind to say something, or the first round is not over.
        case tooLittle(addresses: Int)
        case quiet(toldLoss: Double, untoldLoss: Double, addresses: Int)
        /// - Parameters:
        ///   - addresses: told addresses of the round that it took to be sure.
        ///   - evidence: odds against an accident.
        case harm(toldLoss: Double, untoldLoss: Double, addresses: Int, evidence: Double)
    }

    /// Addresses of either kind that the gate needs for a verdict.
    package static let minAddresses = 5
    /// Addresses of either kind that are kept; of more a sample.
    package static let maxAddresses = 65_536

    private let returnTime: UInt64
    private var told: LossAddresses
    private var untold: LossAddresses
    private var evidence: LossEvidence
    private var verdict = Verdict.tooLittle(addresses: 0)
    private var began: UInt64
    /// The oldest round that is not judged.
    private var oldest: UInt32 = 0
    /// Ends of the rounds before the running one that are not judged, oldest first.
    private var ends: [UInt64] = []

    /// - Parameters:
    ///   - returnTime: nanoseconds in which a stream must come back, or else counts as lost.
    ///   - margin: excess of the mean share that is allowed, 0 to 1.
    ///   - time: now, in nanoseconds of the monotonic clock.
    package init(returnTime: UInt64, margin: Double, at time: UInt64, capacity: Int = maxAddresses) {
        self.returnTime = returnTime
        told = LossAddresses(capacity: capacity)
        untold = LossAddresses(capacity: capacity)
        evidence = LossEvidence(margin: margin)
        began = time
    }

    private var running: UInt32 { oldest &+ UInt32(ends.count) }

    // MARK: Facts

    /// Notes a stream that began, or that was open when the release began. It takes back the oldest loss of its
    /// address.
    package mutating func began(_ address: UInt64, isTold: Bool) {
        let unjudged = oldest...running
        if isTold {
            if told.takeBack(address, rounds: unjudged) { return told.reopen(address) }
            // Its stage may have been told while it was away.
            _ = untold.takeBack(address, rounds: unjudged)
            told.add(address, 1, round: running)
        } else if untold.takeBack(address, rounds: unjudged) {
            untold.reopen(address)
        } else {
            untold.add(address, 1, round: running)
        }
    }

    package mutating func ended(_ address: UInt64, isTold: Bool, _ cause: Cause) {
        if isTold {
            told.end(address, isLost: cause == .byPeer, round: running)
        } else {
            untold.end(address, isLost: cause == .byPeer, round: running)
        }
    }

    /// Notes that a stage reached open streams of an address; call ``reached(at:)`` before.
    package mutating func told(_ address: UInt64, streams: UInt32) {
        untold.remove(address, streams, round: running)
        told.add(address, streams, round: running)
    }

    // MARK: Time

    /// Starts a round, because a stage is told.
    package mutating func reached(at time: UInt64) {
        if told.count > 0, ends.count < LossAddresses.rounds - 1 { ends.append(time) }
        began = time
    }

    package mutating func judge(at time: UInt64) -> Verdict {
        if time >= began + returnTime / 2, ends.count < LossAddresses.rounds - 1 {
            ends.append(time)
            began = time
        }
        while let end = ends.first, time >= end + returnTime { judgeOldest() }
        return verdict
    }

    /// Gives up what was found, because an operator decided to go on anyway.
    package mutating func resume() {
        evidence.forget()
        verdict = .tooLittle(addresses: told.count)
    }

    private mutating func judgeOldest() {
        var others = LossSample()
        var own = LossSample()
        var shares: [Double] = []
        untold.close(oldest, running: running) { others.add($0) }
        told.close(oldest, running: running) {
            own.add($0)
            shares.append($0)
        }
        ends.removeFirst()
        oldest &+= 1
        if case .harm = verdict { return }
        guard min(others.count, own.count) >= Self.minAddresses else {
            verdict = .tooLittle(addresses: own.count)
            return
        }
        evidence.begin(others)
        let needed = shares.firstIndex { evidence.add($0) }
        verdict =
            needed.map {
                .harm(
                    toldLoss: own.mean, untoldLoss: others.mean, addresses: $0 + 1, evidence: evidence.value)
            } ?? .quiet(toldLoss: own.mean, untoldLoss: others.mean, addresses: own.count)
    }
}
