import StalecastCluster
import StalecastControl
import StalecastEdge
import StalecastEtcd
import StalecastRecords
import StalecastStore
import StalecastWire

extension ClusterParts: FreshnessGate {
    private static let leastPatience: Duration = .seconds(2)
    private static let mostPatience: Duration = .seconds(5)

    /// Time that a request waits for the log's answer: at an edge longer than one call to etcd may take, within bounds.
    static func patience(of connection: ClusterConnection, _ isEdge: Bool) -> @Sendable () -> Duration {
        let client = connection.client
        return {
            isEdge ? min(mostPatience, max(leastPatience, client.timeLimit + .milliseconds(500))) : leastPatience
        }
    }

    func newest(_ done: @escaping @Sendable (Freshness) -> Void) {
        if cluster.fetch == .local, !isEdge { return done(.fresh) }
        // Ends within the node's patience; so does the task of `reached`.
        Task { done(waits.counted(cluster.fetch == .local ? await knownFreshness() : await freshness(), .newest)) }
    }

    private func freshness() async -> Freshness {
        if await node.isCurrent(within: node.patience()) == true { return .fresh }
        return Freshness(await copyAge())
    }

    /// Age that answers of Control name, and are refused for.
    func statedAge() async -> ClusterService.CopyAge? {
        if isEdge { return await knownAge() }
        return cluster.fetch == .local ? nil : await copyAge()
    }

    func copyAge() async -> ClusterService.CopyAge {
        let since = await node.unverified
        return ClusterService.CopyAge(
            unverified: since, isTooLong: cluster.maxUnverified > .zero && since > cluster.maxUnverified)
    }

    func reached(_ sequence: CommitSequence, _ done: @escaping @Sendable (Freshness) -> Void) {
        Task {
            // Clients name the cursor: a look at the head is shared and paced, a read of the log is neither.
            let isDone = await node.isCurrent(within: node.patience())
            let isHere = store.head() >= sequence
            done(waits.counted(isHere ? .fresh : isDone == true ? .beyondTheLog : .refused, .cursor))
        }
    }
}

/// An edge answers from its copy without asking etcd, which may be an ocean away. It looks at the log every few seconds,
/// and says how old its knowledge is from the moment on when a look is missing.
extension ClusterParts {
    /// Age from which a copy counts as unverified: two looks, and the time that the second may take.
    private static let usualAge: Duration = .seconds(12)

    /// Age of the copy; nil while the log has confirmed it lately.
    func knownAge() async -> ClusterService.CopyAge? {
        let age = await copyAge()
        return age.unverified > Self.usualAge ? age : nil
    }

    /// Controls that take changes; nil where this one does.
    var changesAt: (@Sendable () -> [String])? {
        guard isEdge else { return nil }
        return { [nodes] in nodes.coreAddresses }
    }

    func knownFreshness() async -> Freshness { await knownAge().map { Freshness($0) } ?? .fresh }

    /// Sentence about a copy that is so old that fetches are refused; empty while they are answered.
    func tooOld() async -> [String] {
        guard let age = await knownAge(), age.isTooLong else { return [] }
        return [
            "the copy of the log here was last confirmed \(age.unverified.wholeSeconds) s ago, longer than "
                + "cluster.maxUnverified allows"
        ]
    }
}

extension Freshness {
    /// - Parameter age: of a copy that the log did not confirm now.
    init(_ age: ClusterService.CopyAge) {
        self = age.isTooLong ? .refused : .unverified(seconds: Int(clamping: age.unverified.wholeSeconds + 1))
    }
}
