import StalecastEdge
import StalecastStore
import StalecastWire
import Synchronization

/// Whether this daemon should get traffic, and if not, why.
final class Readiness: Sendable {
    private let store: TemplateStore
    private let edge: EdgeServer
    private let sources: SourceParts
    private let cluster: ClusterParts?
    private let tls: [ListenerTLS]
    private let reloads: ReloadLog
    private let formerEnd: Timestamp?
    private let isStopping = Mutex(false)

    /// - Parameter formerEnd: time of the last audit line of the run before; nil without one.
    init(
        _ path: CommitPath, store: TemplateStore, edge: EdgeServer, tls: [ListenerTLS], reloads: ReloadLog,
        formerEnd: Timestamp?
    ) {
        (self.tls, self.reloads, self.formerEnd) = (tls, reloads, formerEnd)
        (self.sources, self.cluster, self.store, self.edge) = (path.sources, path.cluster, store, edge)
    }

    /// The daemon was told to end.
    func stop() { isStopping.withLock { $0 = true } }

    /// Shortcomings of a daemon that gets traffic all the same: sentences.
    var degraded: [String] {
        (cluster?.degraded ?? []) + tls.flatMap { $0.invalid() + $0.refused } + refusedReload
            + [ClockWatch.sentence(now: .now(), since: formerEnd)].compactMap(\.self)
    }

    private var refusedReload: [String] {
        // What is wrong with it may name paths: that is for `/status`.
        reloads.newest.problem == nil
            ? [] : ["the configuration was refused at its last reload, and the one before it stays"]
    }

    /// Sentences; empty when ready.
    func reasons() async -> [String] {
        var reasons: [String] = []
        if isStopping.withLock({ $0 }) { reasons.append("the daemon is stopping") }
        let health = await store.health
        if !health.canCommit { reasons.append("the store cannot commit: \(health)") }
        for loop in edge.stuckLoops() { reasons.append("the loop \(loop) has stopped turning") }
        return reasons + sources.unready() + (await cluster?.unready() ?? [])
    }
}
