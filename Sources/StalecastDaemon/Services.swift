import CLinux
import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastOutbound
import StalecastSources
import StalecastStore
import StalecastWire

/// A service that is one function.
struct Work: Service {
    private let body: @Sendable () async throws -> Void

    init(_ body: @escaping @Sendable () async throws -> Void) { self.body = body }

    func run() async throws { try await body() }
}

extension Daemon.Parts {
    /// Edge: serves until told to end, then drains.
    func serveEdge(drain: Duration, _ started: Startup) async throws {
        started.edgeListens(on: try await edge.start())
        // Cancellation means another service failed: the drain is the right end anyway.
        try? await gracefulShutdown()
        await edge.drain(over: drain)
        try await edge.stop()
    }

    /// Runs until the daemon ends, and retries each second what the start could not write (`endpoints.json` on a full
    /// disk). Ends first of all services, so that readiness is off before anything else stops.
    func untilEnding(drain: Duration, _ started: Startup, _ signals: ProcessSignals, _ logger: Logger) async {
        let seconds = AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown()
        var watchdog = Watchdog()
        for await _ in seconds {
            started.retry()
            // Without this message systemd restarts the daemon: when a loop hangs, or the thread pool is stuck.
            if watchdog.isDue(edge.stuckLoops().isEmpty) { SystemdMessage.alive.send() }
        }
        // Starts the deadline also when a failed service, not a signal, ends the daemon.
        signals.ending()
        // A process that replaces itself must not look to systemd like one that stops.
        if cluster?.beginsAnew != true { SystemdMessage.stopping.send() }
        readiness.stop()
        started.withdraw()
        // Before the streams end: afterwards every client would count as gone.
        keepSettled(isEnding: true)
        let held = edge.tally
        logger.notice(
            "ending, a second interrupt ends it at once",
            metadata: ["streams": "\(held.streams)", "polls": "\(held.polls)", "drain": "\(drain.spelled)"])
    }

    /// Ends the daemon when the store has failed (an fsync error), after the answers under way had time to leave: the
    /// 500 with `"outcome":"unknown"` is written within milliseconds, half a second is ample.
    func watchStore(_ logger: Logger) async throws {
        let (failures, continuation) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(1))
        store.setFailureHandler { continuation.yield($0) }
        for await reason in failures.cancelOnGracefulShutdown() {
            logger.critical("store failed", metadata: ["error": "\(reason)"])
            try await Task.sleep(for: .milliseconds(500))
            throw StoreFailed(reason: reason)
        }
    }

    /// Removes old versions hourly, because versions age also in a scope without publishes.
    func sweepStore() async {
        for await _ in AsyncTimer(period: .seconds(3600)).cancelOnGracefulShutdown() { store.beginSweep() }
    }

    /// Stores the rollout status of each version once it has settled.
    func keepPropagation() async {
        for await _ in AsyncTimer(period: .seconds(5)).cancelOnGracefulShutdown() { keepSettled() }
        // Once more, for versions that were published while Control was ending.
        keepSettled(isEnding: true)
    }

    private func keepSettled(isEnding: Bool = false) {
        let rows = hub.propagation.takeSettled(isEnding: isEnding)
        store.keep(rows.map { PropagationRow(scope: $0, version: $1.version, record: $1.record) })
    }

    /// Checks each second for replaced certificates, and logs each day which ones should be replaced.
    func keepCertificates() async {
        var seconds = 0
        for await _ in AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown() {
            tls.forEach { $0.check() }
            seconds += 1
            if seconds % 86_400 == 0 { tls.forEach { $0.remind() } }
        }
    }

    /// Follows a limit of descriptors that is changed while the daemon runs (`prlimit`): Control's cap follows, the
    /// other parts keep their shares, and Edge's cap becomes what is left.
    func watchDescriptors(_ logger: Logger) async {
        var limit = UInt64(descriptors.limit)
        // The cap of the start, read before the loop lowers it: Control gets it back when the limit rises again.
        let cap = controlCapacity.limit
        for await _ in AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown() {
            controlCapacity.closeExcess()
            let now = stalecast_raise_descriptor_limit()
            guard now != limit else { continue }
            limit = now
            let room = edge.limitConnections(to: descriptors.edge(under: now))
            controlCapacity.limit(to: min(cap, descriptors.control(under: now)))
            logger.warning(
                "the limit of open files changed; Edge and Control changed their limits of connections, other parts did not",
                metadata: [
                    "limit": "\(now)", "connections": "\(room)", "control": "\(controlCapacity.limit)",
                    "command": "raise the limit (LimitNOFILE=, --ulimit nofile=) and restart",
                ])
        }
    }

    /// Delivers webhooks until the end, then finishes or hands over what is under way.
    ///
    /// - Parameter ending: finishes when webhooks should end. Services end one after the other, and this one need not
    ///   wait until Edge has drained.
    func deliverWebhooks(until ending: AsyncStream<Void>) async {
        await withTaskGroup { group in
            // It asks delivery, so it ends first.
            if let rollouts { group.addTask { await rollouts.run() } }
            await webhooks.work(until: ending)
            group.cancelAll()
        }
        await webhooks.end()
        // Cancellation means another service failed: the end is the same.
        try? await gracefulShutdown()
    }

    /// Watches all sources until told to end.
    func watchSources() async {
        await withTaskGroup(of: Void.self) { group in
            // In a cluster each source is an assignment, which one node has.
            if cluster == nil { for watcher in sources.watchers { group.addTask { await watcher.run() } } }
            // Cancellation means another service failed, and is an end as well.
            try? await gracefulShutdown()
            group.cancelAll()
        }
        await sources.engine?.shutdown(grace: EndingStages.requests)
    }
}

/// The store can no longer promise what it acknowledges; the process must end and be started again.
package struct StoreFailed: Error, CustomStringConvertible {
    package let reason: String

    package var description: String {
        "the store failed and this process stops acknowledging publishes: \(reason). Check the disk, then start again."
    }
}

/// An element each period, until cancelled.
struct AsyncTimer: AsyncSequence, AsyncIteratorProtocol {
    let period: Duration

    func makeAsyncIterator() -> AsyncTimer { self }

    mutating func next() async -> Void? {
        // The only error is cancellation, and that is the end.
        try? await Task.sleep(for: period)
        return Task.isCancelled ? nil : ()
    }
}

/// Reloads the configuration at SIGHUP: checked first, the old one kept on error, no stream dropped.
struct ReloadService: Service {
    let parts: Daemon.Parts
    let signals: AsyncStream<Void>
    let running: Configuration
    let reload: @Sendable () throws(ConfigurationProblems) -> Configuration
    let logger: Logger

    func run() async throws {
        var running = running
        for await _ in signals.cancelOnGracefulShutdown() {
            SystemdMessage.reloading.send()
            reopenAudit()
            running = next(after: running)
            SystemdMessage.ready.send()
        }
    }

    /// Opens a new audit file when the old one was moved away.
    private func reopenAudit() {
        do throws(AuditLog.Problem) {
            guard try parts.audit.reopen() else { return }
            parts.copies.settle()
            logger.notice("audit log continues in a new file")
        } catch {
            logger.error("audit log was not reopened", metadata: ["error": "\(error)"])
        }
    }

    private func next(after running: Configuration) -> Configuration {
        do {
            let wanted = try reload()
            let waiting = wanted.changesNeedingRestart(from: running)
            if !waiting.isEmpty {
                logger.warning("changes need a restart", metadata: ["keys": "\(waiting.joined(separator: ", "))"])
            }
            let next = wanted.applyingLiveChanges(to: running)
            let changed = wanted.liveChanges(from: running)
            let tokenFile = try TokenFile.load(directory: next.data, file: next.control.tokenFile)
            // Steps that can fail come first, so that a configuration is never applied in part.
            let marks = try parts.cluster?.marks(of: next, tokenFile)
            try apply(next, over: running)
            if let marks { parts.cluster?.describe(marks) }
            for warning in tokenFile.warnings { logger.warning("\(warning)") }
            if parts.access.setBootstrap(next.control.tokenEnabled ? tokenFile.digest : nil) {
                parts.audit.write("token.rotate", ["actor": "operator of this machine"])
                logger.notice("control token replaced, enabled or disabled")
            }
            parts.audit.write(
                "configuration.reload",
                ["actor": "operator of this machine", "changed": .texts(changed)])
            parts.reloads.succeeded(at: .now(), waiting: waiting)
            logger.info("configuration reloaded", metadata: ["changed": "\(changed.joined(separator: ", "))"])
            sayWhatIsNotObserved(next, running)
            return next
        } catch {
            parts.reloads.refused(error)
            logger.error("configuration not reloaded, the old one stays", metadata: ["error": "\(error)"])
            return running
        }
    }

    /// Credentials are judged when a stream begins. Streams that are open now are not judged until they reconnect.
    private func sayWhatIsNotObserved(_ next: Configuration, _ running: Configuration) {
        let tally = parts.edge.tally
        guard next.auth.mode == .observe, running.auth.mode == .off, tally.streams > 0 else { return }
        logger.notice(
            "open streams are checked when they reconnect",
            metadata: [
                "streams": "\(tally.streams)", "within": "\(next.edge.settings.times.streamLifetime.spelled)",
            ])
    }

    private func apply(_ next: Configuration, over running: Configuration) throws {
        // The step that can fail comes first.
        try parts.webhooks.apply(next)
        if next.topicBindings != running.topicBindings { parts.hub.rebind(next.topicBindings) }
        parts.access.configure(next)
        parts.edge.apply(next.edgeSettings(parts.access, parts.descriptors))
        parts.tls.forEach { $0.reload() }
        parts.store.setRetention(maxVersions: next.store.maxVersions, maxAge: next.store.maxVersionAge)
        DaemonLog.setLevel(next.log.level)
    }
}
