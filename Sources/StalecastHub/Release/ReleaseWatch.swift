package import StalecastWire
import Synchronization

/// Facts and figures of the gates of open releases. Loops tell of their streams, the conductor asks for verdicts.
///
/// While no release is open, ``isOpen`` is false and loops tell nothing.
package final class ReleaseWatch: Sendable {
    private struct Watched {
        let version: VersionNumber
        var gate: LossGate
    }

    private struct Shown {
        let version: VersionNumber
        let gates: [GateReading]
        let reach: ReleaseClients.Reach
    }

    private let losses = Mutex<[Scope: Watched]>([:])
    private let shown = Mutex<[Scope: Shown]>([:])
    private let open = Atomic(false)

    package init() {}

    /// Whether a gate compares told streams with others.
    package var isOpen: Bool { open.load(ordering: .relaxed) }

    // MARK: The conductor

    /// Starts to compare the streams of a release, before its topics are split.
    ///
    /// - Parameter time: now, in nanoseconds of the monotonic clock.
    package func begin(_ version: VersionNumber, of scope: Scope, _ gate: LossGate) {
        losses.withLock { $0[scope] = Watched(version: version, gate: gate) }
        open.store(true, ordering: .relaxed)
    }

    /// Ends comparisons of releases that are not open any more.
    package func keep(_ isKept: (Scope, VersionNumber) -> Bool) {
        losses.withLock { losses in
            losses = losses.filter { isKept($0.key, $0.value.version) }
            open.store(!losses.isEmpty, ordering: .relaxed)
        }
    }

    package func reached(_ scope: Scope, at time: UInt64) {
        losses.withLock { $0[scope]?.gate.reached(at: time) }
    }

    /// Notes that an operator decided to go on.
    package func resumed(_ scope: Scope) { losses.withLock { $0[scope]?.gate.resume() } }

    /// Judges a scope's streams; nil while they are not compared.
    package func judge(_ scope: Scope, at time: UInt64) -> LossGate.Verdict? {
        losses.withLock { $0[scope]?.gate.judge(at: time) }
    }

    /// Keeps what the gates of a scope's newest release showed last, and how many clients it reached.
    package func show(
        _ gates: [GateReading], _ reach: ReleaseClients.Reach, of scope: Scope, _ version: VersionNumber
    ) {
        shown.withLock { $0[scope] = Shown(version: version, gates: gates, reach: reach) }
    }

    /// Last readings of a release's gates; empty for one that ended before this process began.
    package func gates(of scope: Scope, _ version: VersionNumber) -> [GateReading] {
        shown.withLock { $0[scope].flatMap { $0.version == version ? $0.gates : nil } ?? [] }
    }

    /// Clients that a release had reached at the last look; nil for one that ended before this process began.
    package func reach(of scope: Scope, _ version: VersionNumber) -> ReleaseClients.Reach? {
        shown.withLock { $0[scope].flatMap { $0.version == version ? $0.reach : nil } }
    }

    // MARK: Loops

    /// Streams that are told of together hold the lock together.
    private static let streamsPerLock = 4096

    /// Notes streams that began, or were there when topics were split.
    ///
    /// - Parameter addresses: one for each stream; 0 is not known.
    package func began(_ seat: ReleaseSeat, _ addresses: [UInt64]) {
        note(seat.scope, seat.version, addresses) { $0.began($1, isTold: seat.isTold) }
    }

    package func ended(_ seat: ReleaseSeat, _ address: UInt64, _ cause: LossGate.Cause) {
        note(seat.scope, seat.version, [address]) { $0.ended($1, isTold: seat.isTold, cause) }
    }

    /// Notes that a stage is told to open streams.
    package func told(_ seat: ReleaseSeat, _ addresses: [UInt64]) {
        note(seat.scope, seat.version, addresses) { $0.told($1, streams: 1) }
    }

    /// Facts of an earlier release, which a loop tells late, are dropped.
    private func note(
        _ scope: Scope, _ version: VersionNumber, _ addresses: [UInt64], _ body: (inout LossGate, UInt64) -> Void
    ) {
        for start in stride(from: 0, to: addresses.count, by: Self.streamsPerLock) {
            losses.withLock { losses in
                // Taken out while it changes, so that the gate's addresses are not copied.
                guard var loss = losses.removeValue(forKey: scope) else { return }
                defer { losses[scope] = loss }
                guard loss.version == version else { return }
                for address in addresses[start...].prefix(Self.streamsPerLock) where address != 0 {
                    body(&loss.gate, address)
                }
            }
        }
    }
}

package struct ReleaseSeat: Hashable, Sendable {
    package let scope: Scope
    package let version: VersionNumber
    /// Their stage was told of the version.
    package let isTold: Bool

    package init(scope: Scope, version: VersionNumber, isTold: Bool) {
        (self.scope, self.version, self.isTold) = (scope, version, isTold)
    }
}

extension TopicBoard {
    /// Places of a stream in the releases that its scopes had last, each once.
    ///
    /// - Parameter topics: all that it hears.
    package func releaseSeats(of topics: [Topic.Index]) -> Set<ReleaseSeat> {
        guard !splits.isEmpty else { return [] }
        return Set(topics.compactMap(releaseSeat))
    }

    private func releaseSeat(of topic: Topic.Index) -> ReleaseSeat? {
        guard let stage = self[topic].stage, let split = splits[self[topic].scope] else { return nil }
        return ReleaseSeat(
            scope: self[topic].scope, version: split.cut.version, isTold: split.sequences[stage] != nil)
    }

    /// Places of the streams that an announcement tells of their release's version for the first time, by topic.
    package func newlyTold(_ announcement: Announcement) -> [(topic: Topic.Index, seat: ReleaseSeat)] {
        guard announcement.audience != nil else { return [] }
        return announcement.encodedMessages.compactMap { topic, _ in
            guard let seat = releaseSeat(of: topic), !seat.isTold, seat.version == announcement.change.version else {
                return nil
            }
            return (topic, seat)
        }
    }
}
