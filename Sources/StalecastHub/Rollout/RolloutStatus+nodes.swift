package import StalecastWire

/// A version's way over the nodes of a cluster: each counts the clients that were its own when the version was
/// announced.
extension RolloutStatus {
    /// Record for other nodes: ``record``, with what a sum needs besides.
    package var shared: JSONValue {
        var object = record.object ?? [:]
        object["c"] = .bool(isCounted)
        object["e"] = .int(fetches.errors)
        object["x"] = .array([streams.received, streams.receivedUnknown, streams.polls].map { .int($0) })
        object["ns"] = .int(streams.nanoseconds)
        object["h"] = .array([sent, fetched, active].map { .array($0.counts.map { .int($0) }) })
        return .object(object)
    }

    /// nil for what ``shared`` did not make.
    package init?(shared value: JSONValue, of version: VersionNumber) {
        self.init(record: value, of: version)
        isFromMemory = true
        isCounted = value["c"]?.bool ?? false
        fetches.errors = Self.count(value["e"])
        let streams = value["x"]?.array ?? []
        guard streams.count == 3, let histograms = value["h"]?.array, histograms.count == 3 else { return nil }
        self.streams.received = Self.count(streams[0])
        self.streams.receivedUnknown = Self.count(streams[1])
        self.streams.polls = Self.count(streams[2])
        self.streams.nanoseconds = UInt64(Self.count(value["ns"]))
        sent.setCounts(histograms[0])
        fetched.setCounts(histograms[1])
        active.setCounts(histograms[2])
    }

    /// Sum with the counts of other nodes for the same version. Times of shares over several nodes are the ends of the
    /// histogram's buckets: at most a fifth too late. A client that listens at two nodes counts at each: nodes do not know
    /// each other's audiences. Sums of parts never exceed the sum that they are of.
    ///
    /// - Parameter isComplete: all nodes have told.
    package func together(with others: [RolloutStatus], isComplete: Bool) -> RolloutStatus {
        var all = self
        all.isCounted = isCounted && isComplete && others.allSatisfy(\.isCounted)
        guard !others.isEmpty else { return all }
        for other in others {
            all.streams.merge(other.streams)
            all.clients.add(other.clients)
            // An edge may ask its own clients for more time.
            all.fetches.windowMs = max(all.fetches.windowMs, other.fetches.windowMs)
            all.fetches.answers += other.fetches.answers
            all.fetches.errors += other.fetches.errors
            all.fetches.peakPerSecond += other.fetches.peakPerSecond
        }
        let rolloutStatuses = [self] + others
        all.sent.gather(
            rolloutStatuses.map(\.sent), of: all.streams.streams - all.streams.left, own: streams.streams - streams.left
        )
        all.fetched.gather(rolloutStatuses.map(\.fetched), of: all.clients.expected, own: clients.expected)
        all.active.gather(rolloutStatuses.map(\.active), of: all.clients.expected, own: clients.expected)
        // A client that has not got it at any node is awaited still.
        let open = Set(rolloutStatuses.map(\.state).filter { !$0.isDone })
        all.state =
            open.isEmpty
            ? all.endState : open.contains(.superseded) ? .superseded : open == [.expired] ? .expired : .spreading
        return all
    }
}

extension StageTimes {
    fileprivate mutating func setCounts(_ value: JSONValue) {
        let counts = (value.array ?? []).prefix(Self.buckets).map { UInt32(clamping: $0.int64 ?? 0) }
        self = StageTimes(t50: t50, t95: t95, t99: t99, last: last, counts: counts)
    }

    /// Becomes the sum of the nodes.
    ///
    /// - Parameters:
    ///   - expected: number that shares are of.
    ///   - own: how many of these are this node's; where they are all, times are exact.
    fileprivate mutating func gather(_ stageTimes: [StageTimes], of expected: Int, own: Int) {
        if expected == own { return }
        var sums = [UInt32](repeating: 0, count: stageTimes.map(\.counts.count).max() ?? 0)
        for stageTimes in stageTimes {
            // Wraps instead of trapping, because the counts are another node's and may be anything.
            for (bucket, count) in stageTimes.counts.enumerated() { sums[bucket] &+= count }
        }
        let last = stageTimes.compactMap(\.last).max()
        func time(_ percent: Int) -> UInt64? {
            var sum = 0
            guard expected > 0 else { return nil }
            for (bucket, count) in sums.enumerated() {
                sum += Int(count)
                guard sum * 100 >= expected * percent else { continue }
                return min(UInt64(Self.bound(bucket) * 1e9), last ?? .max)
            }
            return nil
        }
        self = StageTimes(t50: time(50), t95: time(95), t99: time(99), last: last, counts: sums)
    }
}

struct OtherNodes {
    var reports: [String: [Scope: NodeRollouts]] = [:]
    var alive: Set<String> = []
    /// Seconds after which a node that does not report a version is not waited for. Scopes take turns, at least
    /// ten a second and mostly fifty; see ``SharedRollouts``.
    private var patience: Double { 10 + Double(reports.values.map(\.count).max() ?? 0) / 10 }

    func reports(of scope: Scope) -> [NodeRollouts] { alive.compactMap { reports[$0]?[scope] } }

    /// A version's way with what the others say.
    func together(_ own: RolloutStatus, _ sequence: CommitSequence, in scope: Scope) -> RolloutStatus {
        var (rolloutStatuses, isComplete): ([RolloutStatus], Bool) = ([], true)
        let patience = patience
        for node in alive {
            let report = reports[node]?[scope]
            if let rolloutStatus = report?.statuses[own.version] {
                rolloutStatuses.append(rolloutStatus)
            } else if own.ageSeconds < patience, report.map({ $0.head < sequence }) ?? true {
                isComplete = false
            }
        }
        return own.together(with: rolloutStatuses, isComplete: isComplete)
    }
}
