import Foundation
import Logging
import ServiceLifecycle
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWebhooks

/// Edge as a service: serves until told to end, then drains.
struct EdgeService: Service {
    let edge: EdgeServer
    let drain: Duration
    let started: Startup

    func run() async throws {
        started.edgeListens(on: try await edge.start())
        // Cancellation means another service failed: the drain is the right end all the same.
        try? await gracefulShutdown()
        await edge.drain(over: drain)
        try await edge.stop()
    }
}

/// Ends when the daemon is told to end, and with it everything else.
struct EndingSignal: Service {
    let endings: AsyncStream<Void>

    func run() async throws {
        for await _ in endings.cancelOnGracefulShutdown() { return }
    }
}

/// Goes first at the end: readiness off before anything else stops.
struct EndingBegin: Service {
    let parts: DaemonParts
    let drain: Duration
    let started: Startup
    let signals: ProcessSignals
    let logger: Logger

    func run() async throws {
        let seconds = AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown()
        for await _ in seconds { started.retry() }
        // Also when a service failed: from here on the time is limited.
        signals.ending()
        SystemdNotice.stopping.send()
        parts.readiness.stop()
        started.withdraw()
        let held = parts.edge.tally
        logger.notice(
            "ending, a second interrupt ends it at once",
            metadata: ["streams": "\(held.streams)", "polls": "\(held.polls)", "drain": "\(drain.spelled)"])
    }
}

/// The store can no longer promise what it acknowledges; the process must end and be started again.
package struct StoreFailed: Error, CustomStringConvertible {
    package let reason: String

    package var description: String {
        "the store failed and this process stops acknowledging publishes: \(reason). Check the disk, then start again."
    }
}

/// Ends the daemon when the store has failed (an fsync error), after the answers under way had time to leave.
struct StoreWatch: Service {
    let store: TemplateStore
    let logger: Logger

    /// The 500 with `"outcome":"unknown"` is written within milliseconds; this is ample.
    private static let farewell: Duration = .milliseconds(500)

    func run() async throws {
        let (failures, continuation) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(1))
        store.setFailureHandler { continuation.yield($0) }
        for await reason in failures.cancelOnGracefulShutdown() {
            logger.critical("store failed", metadata: ["error": "\(reason)"])
            try await Task.sleep(for: Self.farewell)
            throw StoreFailed(reason: reason)
        }
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

/// Lets go of old versions hourly: a scope nobody publishes to ages too.
struct StoreUpkeep: Service {
    let store: TemplateStore

    func run() async throws {
        let hours = AsyncTimer(period: .seconds(3600)).cancelOnGracefulShutdown()
        for await _ in hours { store.beginSweep() }
    }
}

/// Reloads the configuration at SIGHUP: checked first, the old one kept on error, no stream dropped.
struct ReloadService: Service {
    let parts: DaemonParts
    let token: ControlToken
    let signals: AsyncStream<Void>
    let running: Configuration
    let reload: @Sendable () throws(ConfigurationProblems) -> Configuration
    let logger: Logger

    func run() async throws {
        var running = running
        for await _ in signals.cancelOnGracefulShutdown() {
            SystemdNotice.reloading.send()
            running = next(after: running)
            SystemdNotice.ready.send()
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
            try apply(next, over: running)
            for warning in tokenFile.warnings { logger.warning("\(warning)") }
            if token.replace(sha256: tokenFile.digest) { logger.notice("control token replaced") }
            logger.info("configuration reloaded", metadata: ["changed": "\(changed.joined(separator: ", "))"])
            return next
        } catch {
            logger.error("configuration not reloaded, the old one stays", metadata: ["error": "\(error)"])
            return running
        }
    }

    private func apply(_ next: Configuration, over running: Configuration) throws {
        // First what can be refused.
        try parts.webhooks.apply(next)
        if next.topicBindings != running.topicBindings {
            parts.hub.rebind(next.topicBindings)
            parts.webhooks.delivery.rebind(next.topicRoutes)
        }
        parts.edge.apply(next.edgeSettings)
        parts.store.setRetention(maxVersions: next.store.maxVersions, maxAge: next.store.maxVersionAge)
        DaemonLog.setLevel(next.log.level)
    }
}
