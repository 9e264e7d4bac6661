import StalecastEdge
import StalecastStore
import Synchronization

/// Whether this daemon should get traffic, and if not, why.
final class Readiness: Sendable {
    private let store: TemplateStore
    private let edge: EdgeServer
    private let sources: SourceParts
    private let isStopping = Mutex(false)

    init(store: TemplateStore, edge: EdgeServer, sources: SourceParts) {
        self.sources = sources
        self.store = store
        self.edge = edge
    }

    /// The daemon was told to end.
    func stop() { isStopping.withLock { $0 = true } }

    /// Sentences; empty when ready.
    func reasons() -> [String] {
        var reasons: [String] = []
        if isStopping.withLock({ $0 }) { reasons.append("the daemon is stopping") }
        switch store.health {
        case .ok: break
        case .closed: reasons.append("the store is closed")
        case .diskFull: reasons.append("the store cannot commit: the disk is full")
        case .failed: reasons.append("the store cannot commit: it has failed and the daemon will exit")
        }
        for loop in edge.stuckLoops() { reasons.append("the loop \(loop) has stopped turning") }
        return reasons + sources.unready()
    }
}
