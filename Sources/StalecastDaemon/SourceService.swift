import ServiceLifecycle
import StalecastOutbound
import StalecastSources

/// Watches all sources until told to end.
struct SourceService: Service {
    let sources: SourceParts

    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            for watcher in sources.watchers { group.addTask { await watcher.run() } }
            // Cancellation means another service failed, and is an end as well.
            try? await gracefulShutdown()
            group.cancelAll()
        }
        await sources.engine?.shutdown(grace: .milliseconds(200))
    }
}
