import ServiceLifecycle
import StalecastEdge
import StalecastHub
import StalecastOutbound
import StalecastSources
import StalecastWire

/// Watches all sources, and counts the herd, until told to end.
struct SourceService: Service {
    let sources: SourceParts
    let edge: EdgeServer
    let hub: Hub

    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            for watcher in sources.watchers { group.addTask { await watcher.run() } }
            if sources.herd.isNeeded { group.addTask { await sources.herd.run(edge, hub) } }
            // Cancellation means another service failed, and is an end as well.
            try? await gracefulShutdown()
            group.cancelAll()
        }
        await sources.engine?.shutdown(grace: .milliseconds(200))
    }
}
