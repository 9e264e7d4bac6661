package import StalecastWire
import Synchronization

/// Records which client has which version, over all loops of Edge: the hub tells it what is announced, loops which
/// clients come, go and how far they are, fetches what was answered. Every call takes a lock for less than a
/// microsecond, but for a look and the first call after an announcement, which pass over the clients once: a
/// millisecond at the cap.
package final class RolloutTracker: Sendable {
    private struct State {
        var versions: RolloutState
        var claims: [ClientReport.State: Int] = [:]
        var refusals: [ClientReport.Refusal: Int] = [:]
        var budget = AddressBudget(perAddress: 50, total: RolloutTracker.reportsPerSecond, period: 10)
    }

    package struct Limits: Sendable, Hashable {
        /// Clients counted one by one; above it a sample. Default 65,536.
        package var clients = 65_536
        /// Whether ids, addresses, apps and SDKs are kept in memory. Default true.
        package var keepsNames = true

        package init() {}
    }

    /// Address of a client: the ledger's key, which has no limit for loopback addresses.
    package typealias Address = (key: UInt64, isLimited: Bool)

    private let state: Mutex<State>
    private let elsewhere = Mutex(OtherNodes())
    private let clock: @Sendable () -> UInt64
    private let wall: @Sendable () -> Timestamp

    /// - Parameter clock: nanoseconds that only grow.
    package init(
        _ limits: Limits = Limits(), clock: @escaping @Sendable () -> UInt64 = RolloutTracker.monotonic,
        wall: @escaping @Sendable () -> Timestamp = { .now() }
    ) {
        self.clock = clock
        self.wall = wall
        state = Mutex(
            State(versions: RolloutState(cap: limits.clients, keepsNames: limits.keepsNames, now: clock())))
    }

    /// Reports of all addresses together in a second.
    private static let reportsPerSecond = 2000

    private static let origin = ContinuousClock.now

    /// Nanoseconds since the first call, and an hour.
    @Sendable package static func monotonic() -> UInt64 {
        let (seconds, attoseconds) = origin.duration(to: .now).components
        return UInt64(seconds + 3600) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
    }

    // MARK: Told by the hub and the loops

    /// A loop will tell how far its streams are, of every version; until it has, the audience is not known.
    package func addLoop() -> Int { write { versions, _ in versions.addLoop() } }

    /// Notes an announcement before any loop gets it.
    func announced(_ announcement: TopicBoard.Announcement) {
        let time = wall()
        let topics = Set(announcement.encodedMessages.map(\.topic))
        let window = announcement.encodedMessages.first?.encodedMessage.message.fetchWindowMs ?? 0
        write { versions, now in
            versions.announced(
                AnnouncedVersion(
                    change: announcement.change, topics: topics, fetchWindowMs: window, now: now, time: time))
        }
    }

    /// A version was announced by a process before this one, which did not see the end of it.
    ///
    /// - Parameters:
    ///   - topics: those it was announced on.
    ///   - isStored: that process wrote down how far it was, which is more than will be known here.
    package func resume(_ change: TemplateChange, on topics: Set<Topic.Index>, isStored: Bool = false) {
        write { versions, now in
            versions.announced(
                AnnouncedVersion(
                    change: change, topics: topics, isPartial: true, isStored: isStored, now: now,
                    time: change.metadata.updateTime))
        }
    }

    /// - Parameter streamCounts: nil for a loop without streams; ignored when the loop has counted this version before.
    package func note(_ streamCounts: StreamCounts?, of loop: Int, in scope: Scope, _ sequence: CommitSequence) {
        write { $0.note(streamCounts, of: loop, in: scope, sequence, at: $1) }
    }

    package func joined(_ arrival: ClientArrival, address: Address) {
        write { $0.joined(arrival, address: address, at: $1) }
    }

    /// A client's streams moved to the topics of its stage.
    ///
    /// - Parameter version: the one whose release split the scope. Its first stage may have been announced before.
    package func moved(_ keys: [UInt64], to topics: Set<Topic.Index>, in scope: Scope, by version: VersionNumber) {
        write { versions, now in
            for key in keys { versions.moved(key, to: topics, in: scope, by: version, at: now) }
        }
    }

    /// - Parameters:
    ///   - keys: of ``ClientIdentity/key(in:)``.
    ///   - untold: sequence of the first version that the stream was not told of; nil where it was told of all.
    package func left(_ keys: [UInt64], isPoll: Bool, untold: CommitSequence? = nil) {
        write { versions, now in
            for key in keys { versions.left(key, isPoll: isPoll, untold: untold, at: now) }
        }
    }

    /// An answer of a version was written; a client's `active` is what it says it runs.
    ///
    /// - Parameters:
    ///   - client: nil does not say who it is.
    ///   - seconds: it took.
    package func fetched(
        _ client: ClientIdentity?, _ scope: Scope, _ version: VersionNumber, seconds: Double = 0, address: Address
    ) {
        write { $0.fetched(client, scope, version, seconds: seconds, address: address, at: $1) }
    }

    /// A fetch was refused, and not because of what the client did.
    package func refused(_ scope: Scope, status: Int) {
        write { $0.refused(scope, status: status, at: $1) }
    }

    /// Lets a scope's herd learn from the fetches since its newest version; see ``HerdExperience``.
    func teach(_ experience: inout HerdExperience, of herd: HerdWindow, in scope: Scope, isOver: Bool) {
        let (load, streamCounts, now) = write { versions, now in
            (versions.loads[scope], versions.rollouts[scope]?.last?.streamCounts, now)
        }
        guard let load, let streamCounts else { return }
        experience.learn(load, notified: streamCounts.streams + streamCounts.polls, of: herd, isOver: isOver, at: now)
    }

    /// A client reports. It counts where a client of that id is connected or was seen within the hour.
    package func claimed(
        _ client: ClientIdentity, _ scope: Scope, _ claim: ClientReport, address: Address
    ) throws(ClientReport.Refusal) {
        let now = clock()
        let refusal = state.withLock { state -> ClientReport.Refusal? in
            var refusal: ClientReport.Refusal?
            if !state.budget.takes(address.isLimited ? address.key : nil, at: state.versions.tenths(now)) {
                refusal = .budget
            } else if !state.versions.claimed(client.key(in: scope), scope, claim, address: address, at: now) {
                refusal = .stranger
            }
            if let refusal {
                state.refusals[refusal, default: 0] += 1
            } else {
                state.claims[claim.state, default: 0] += 1
            }
            return refusal
        }
        if let refusal { throw refusal }
    }

    /// Share of a scope's clients that should report, so that all of them together stay within half of what is taken.
    func reportRatio(_ scope: Scope, fetchWindowMs: Int) -> Double {
        let present = write { versions, _ in versions.present(in: scope) }
        guard present > 0 else { return 1 }
        return min(1, Double(Self.reportsPerSecond / 2) * max(1, Double(fetchWindowMs) / 1000) / Double(present))
    }

    // MARK: Asked

    /// Runs with the state as of now: clients whose absence has become too long are counted out first.
    func read<Value: Sendable>(_ body: (RolloutState, UInt64) -> Value) -> Value {
        write { versions, now in
            versions.leave(at: now)
            return body(versions, now)
        }
    }

    /// Runs with the state under the lock, and with the time.
    func write<Value: Sendable>(_ body: (inout RolloutState, UInt64) -> Value) -> Value {
        // Read outside the lock, which loops wait for.
        let now = clock()
        return state.withLock { body(&$0.versions, now) }
    }

    func others<Value: Sendable>(_ body: (inout OtherNodes) -> Value) -> Value { elsewhere.withLock { body(&$0) } }

    /// The versions in memory, newest first, over all nodes.
    package func propagations(of scope: Scope) -> [RolloutStatus] {
        let own = read { versions, now in
            (versions.rollouts[scope] ?? []).indices.reversed().map {
                (versions.propagation(scope, $0, at: now), versions.rollouts[scope]?[$0].sequence ?? 0)
            }
        }
        return others { others in own.map { others.together($0, $1, in: scope) } }
    }

    /// State of a version over all nodes.
    ///
    /// - Parameter version: nil is the newest.
    /// - Returns: nil where nothing is in memory.
    package func propagation(of scope: Scope, _ version: VersionNumber? = nil) -> RolloutStatus? {
        let own = read { versions, now in
            let list = versions.rollouts[scope] ?? []
            let place = version.map { wanted in list.lastIndex { $0.version == wanted } } ?? list.indices.last
            return place.map { (versions.propagation(scope, $0, at: now), list[$0].sequence) }
        }
        return own.map { own in others { $0.together(own.0, own.1, in: scope) } }
    }

    /// Settled versions to store since the last call; see ``RolloutState/settled(at:isEnding:)``.
    package func takeSettled(isEnding: Bool = false) -> [(Scope, RolloutStatus)] {
        write { $0.settled(at: $1, isEnding: isEnding) }
    }

    /// Times from announcements to stages, of all versions.
    package var seconds: StageSeconds { write { versions, _ in versions.rollouts.seconds } }

    package var claims: (counted: [ClientReport.State: Int], refused: [ClientReport.Refusal: Int]) {
        state.withLock { ($0.claims, $0.refusals) }
    }
}
