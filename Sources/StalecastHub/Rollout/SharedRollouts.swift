package import StalecastRecords
package import StalecastWire
import Synchronization

/// Shares with the other nodes of a cluster how versions come to clients. Each node keeps a record `way/<node>/<scope>`
/// of what it counts, under the lease with which it lives, and tells of clients that it answered and that are in no
/// audience here (`seen/<node>/<chance>`).
package final class SharedRollouts: Sendable {
    private let membership: Membership
    private let tracker: RolloutTracker
    private let scopes: [Scope]
    private let webhooks: @Sendable (Scope, VersionNumber) async -> WebhookCounts
    private let openRelease: @Sendable (Scope) -> VersionNumber?
    private let written = Mutex<[Scope: (value: [UInt8], at: ContinuousClock.Instant)]>([:])
    private let nextScope = Mutex(0)
    private let sightingLease = Mutex<(lease: RecordLease, since: ContinuousClock.Instant)?>(nil)

    private static let statuses = "way"
    package static let sightings = "seen"
    /// Versions of a scope in its record.
    private static let newest = 4
    /// Seconds after an announcement in which a record is written each second; then each ten.
    private static let fresh = Double(RolloutState.fresh) / 1e9
    private static let rarely = Duration.seconds(10)
    /// A node whose watch broke off is told when it has another within this time.
    private static let sightingLifetime = Duration.seconds(15)
    /// Sightings of this time share a lease, which saves two writes a second.
    private static let leaseUse = Duration.seconds(5)
    /// Records of sightings a second, at most.
    private static let mostSightings = 16
    /// Bytes of a second's records of scopes, at most. They are written in one step, which is one fsync of etcd: appends
    /// wait for it, and etcd keeps all versions of a record until it is compacted.
    private static let mostBytes = 128 << 10

    /// - Parameters:
    ///   - webhooks: those that this node delivers to, by how far they are with a version.
    ///   - openRelease: version of a scope's open release; nil: none is open.
    package init(
        _ membership: Membership, _ tracker: RolloutTracker, _ scopes: [Scope],
        webhooks: @escaping @Sendable (Scope, VersionNumber) async -> WebhookCounts,
        openRelease: @escaping @Sendable (Scope) -> VersionNumber?
    ) {
        (self.membership, self.tracker, self.scopes) = (membership, tracker, scopes)
        (self.webhooks, self.openRelease) = (webhooks, openRelease)
    }

    /// Shares once a second, until the task is cancelled.
    package func run() async {
        await begin()
        // Cancelled: the loop ends.
        while (try? await Task.sleep(for: .seconds(1))) != nil { await share() }
    }

    /// Takes what the other nodes share, from now on.
    package func begin() async {
        tracker.beginSharing()
        await membership.informer.observe(Self.statuses) { [self] in take($0) }
        await membership.informer.observe(Self.sightings) { [self] change in
            guard case .put(let record) = change else { return }
            for fetch in RolloutTracker.ForeignFetch.read(record.value, at: membership.node) {
                tracker.seenElsewhere(fetch)
            }
        }
    }

    package func share() async {
        let others = membership.others
        tracker.setNodes(others)
        let fetches = tracker.takeForeignFetches()
        if !others.isEmpty { await share(fetches) }
        await shareReports()
    }

    /// Begins the next time with the first scope that was left out, so that each has its turn.
    private func shareReports() async {
        guard let lease = membership.lease else { return }
        let begin = nextScope.withLock(\.self)
        var (reports, bytes): ([(scope: Scope, put: RecordPut)], Int) = ([], 0)
        for index in scopes.indices.map({ ($0 + begin) % scopes.count }) {
            guard let value = await news(of: scopes[index]) else { continue }
            bytes += value.count
            if reports.count == RecordPut.most || !reports.isEmpty && bytes > Self.mostBytes {
                nextScope.withLock { $0 = index }
                break
            }
            let name = RecordName(Self.statuses, "\(membership.node)/\(scopes[index])")
            let revision = await membership.informer.record(name)?.revision
            reports.append((scopes[index], RecordPut(name: name, value: value, over: revision, lease: lease)))
        }
        // If it is not done, it is tried again in a second.
        guard !reports.isEmpty, (try? await membership.informer.put(reports.map(\.put))) == true else { return }
        written.withLock { written in
            for (scope, put) in reports { written[scope] = (put.value, .now) }
        }
    }

    private func share(_ fetches: [RolloutTracker.ForeignFetch]) async {
        let records = RolloutTracker.ForeignFetch.records(of: fetches, at: membership.node, most: Self.mostSightings)
        for record in records {
            // Without etcd they are lost: those clients are awaited until they fetch again, or leave.
            guard let lease = await leaseOfSightings() else { return }
            // Below its own name: there an edge may write.
            let name = RecordName(Self.sightings, "\(membership.node)/\(Epoch.random())")
            // Lost as above. Where etcd has forgotten the lease, the next record gets another one.
            if (try? await membership.informer.put(record, to: name, over: nil, lease: lease)) == nil {
                sightingLease.withLock { $0 = nil }
            }
        }
    }

    private func leaseOfSightings() async -> RecordLease? {
        let known = sightingLease.withLock(\.self)
        if let known, known.since + Self.leaseUse > .now { return known.lease }
        // Etcd is away: tried again next turn.
        guard let lease = try? await membership.grant(Self.sightingLifetime + Self.leaseUse) else { return nil }
        sightingLease.withLock { $0 = (lease, .now) }
        return lease
    }

    /// Returns the report of a scope that is to be written now; nil: none.
    private func news(of scope: Scope) async -> [UInt8]? {
        guard let (head, statuses) = tracker.own(of: scope, limit: Self.newest), let newest = statuses.first else {
            return nil
        }
        var report = NodeRollouts(head: head, statuses)
        report.webhooks = await webhooks(scope, newest.version)
        report.release = openRelease(scope).map { ($0, tracker.clients(ofRelease: $0, in: scope)) }
        let value = report.json.encoded()
        let last = written.withLock { $0[scope] }
        let isQuiet = newest.ageSeconds > Self.fresh
        if let last, last.value == value || isQuiet && last.at + Self.rarely > .now { return nil }
        return value.count <= SharedRecord.maxBytes ? value : nil
    }

    private func take(_ change: Informer.Change) {
        switch change {
        case .put(let record):
            // What another program wrote and this one cannot read is not counted.
            guard let (node, scope) = Self.parts(record.name), node != membership.node,
                let document = JSONValue.ifValid(record.value), let report = NodeRollouts(json: document)
            else { return }
            tracker.heard(node, of: scope, report)
        case .removed(let name):
            guard let (node, scope) = Self.parts(name) else { return }
            if node == membership.node { return written.withLock { $0[scope] = nil } }
            tracker.heard(node, of: scope, nil)
        case .complete: break
        }
    }

    private static func parts(_ name: RecordName) -> (node: String, scope: Scope)? {
        guard let slash = name.id.firstIndex(of: "/"), let scope = Scope(name.id[name.id.index(after: slash)...]) else {
            return nil
        }
        return (String(name.id[..<slash]), scope)
    }
}
