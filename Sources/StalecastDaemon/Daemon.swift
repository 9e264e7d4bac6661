import CLinux
import Foundation
package import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastControl
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastRecords
import StalecastStore
import StalecastWire
import Synchronization

/// The running version.
package enum DaemonVersion {
    /// Release of this source; between two releases, the next one.
    private static let release = "0.3.0"

    /// `0.3.0` at the commit with this release's tag; `0.3.0~git14.51b72f7` at a commit before it, `0.3.0~dev` in a plain
    /// `swift build`. Package managers sort all of these before `0.3.0` and behind the release before it.
    package static let text = spelled(release, build: String(cString: stalecast_build()))

    /// The commit; empty for a plain `swift build`.
    package static let revision = String(cString: stalecast_revision())

    package static func spelled(_ release: String, build: String) -> String {
        build == "release" ? release : "\(release)~\(build.isEmpty ? "dev" : build)"
    }
}

/// The composition root: configuration → wiring → list of services.
package struct Daemon: Sendable {
    /// The parts of a running daemon, for those that report on it.
    struct Parts: Sendable {
        let descriptors: DescriptorBudget
        let controlCapacity: ControlCapacity
        let scopes: [Scope]
        let access: Authorizer
        /// nil for a daemon outside a cluster.
        let keys: SharedKeys?
        let copies: AuditCopies
        let store: TemplateStore
        let edge: EdgeServer
        let releasePlans: [ReleasePlan]
        private let path: CommitPath
        let readiness: Readiness
        /// TLS of the listeners that have any.
        let tls: [ListenerTLS]
        let reloads = ReloadLog(startedAt: .now())
        let timeline: TimelineKeeper
        let slowReaders = SlowReaders()

        fileprivate init(
            _ path: CommitPath, _ configuration: Configuration, _ descriptors: DescriptorBudget, _ store: TemplateStore,
            _ access: Authorizer, _ copies: AuditCopies, _ edge: EdgeServer, tls: [ListenerTLS]
        ) {
            (self.path, self.descriptors, self.store, self.edge) = (path, descriptors, store, edge)
            (self.access, self.copies, self.tls) = (access, copies, tls)
            keys = path.cluster.map { SharedKeys($0.nodes.informer, store, access, sharesOwn: !$0.isEdge) }
            controlCapacity = ControlCapacity(min(configuration.control.maxConnections, descriptors.control))
            (scopes, releasePlans) = (configuration.scopes, configuration.releases)
            readiness = Readiness(
                path, store: store, edge: edge, tls: tls, reloads: reloads, formerEnd: copies.audit.formerEnd)
            timeline = TimelineKeeper(directory: configuration.data)
        }

        var startedAt: Timestamp { reloads.startedAt }
        var audit: AuditLog { copies.audit }
        var hub: Hub { path.hub }
        /// nil for a daemon outside a cluster.
        var rollouts: SharedRollouts? { path.rollouts }
        var versions: VersionLog { path.versions }
        var served: ServedTemplates { path.served }
        var webhooks: WebhookParts { path.webhooks }
        var releases: ReleaseTally { path.releases }
        var sources: SourceParts { path.sources }
        /// nil for a daemon outside a cluster.
        var cluster: ClusterParts? { path.cluster }
    }

    private let configuration: Configuration
    private let reload: @Sendable () throws(ConfigurationProblems) -> Configuration
    private let logger: Logger
    private let signals: ProcessSignals

    /// - Parameters:
    ///   - configuration: checked, as the loader made it.
    ///   - reload: loads it again from the same sources, at SIGHUP.
    package init(
        configuration: Configuration, logger: Logger, signals: ProcessSignals,
        reload: @escaping @Sendable () throws(ConfigurationProblems) -> Configuration
    ) {
        (self.configuration, self.reload, self.logger, self.signals) = (configuration, reload, logger, signals)
    }

    /// Serves until SIGTERM or SIGINT, then ends cleanly.
    ///
    /// - Throws: ``StartError`` and the store's and Edge's errors when it cannot start; ``StoreFailed`` when the store
    ///   failed while running. The process must then exit non-zero.
    package func run() async throws {
        // Databases make their own files.
        umask(0o077)
        if signals.tracesCrashes {
            logger.warning(
                "SWIFT_BACKTRACE is on: a crash keeps ports, lock and streams until its trace is written, for seconds")
        }
        let descriptors = try DescriptorBudget(
            limit: stalecast_raise_descriptor_limit(), for: configuration.descriptorParts)
        sayWhatTheMachineAllows()
        let connection = try configuration.isClustered ? ClusterConnection(configuration, logger) : nil
        let opened: TemplateStore?
        if let connection { opened = try await connection.openStore(signals) } else { opened = try openStore() }
        // nil: a signal asked the daemon to end before the store could be opened.
        guard let store = opened else { return }
        defer { store.close() }
        let edgeTLS = try ListenerTLS("edge", configuration.edge.tls, isTLS13Only: false, logger)
        let controlTLS = try ListenerTLS("control", configuration.controlTLS, isTLS13Only: true, logger)
        // Before the path, whose sources and webhooks write lines.
        let audit = try Self.openAudit(configuration, logger)
        defer { audit.mark() }
        let path = try await CommitPath(store, connection, configuration, descriptors, audit, logger)
        let token = try loadToken(path.cluster, store)
        let copies = AuditCopies(audit, store)
        try complete(copies)
        let keeper = path.keeper(of: store, copies, logger)
        let access = try Self.makeAccess(store, configuration, token)
        let edge = try EdgeServer(
            options: configuration.edgeOptions(tls: edgeTLS?.server, freshness: path.cluster),
            settings: configuration.edgeSettings(access, descriptors), hub: path.hub, served: path.served,
            logger: logger)
        access.observe { edge.accessChanged() }
        let parts = Parts(
            path, configuration, descriptors, store, access, copies, edge,
            tls: [edgeTLS, controlTLS].compactMap(\.self))
        try await group(of: try services(of: parts, keeper, controlTLS: controlTLS?.server)).run()
        logger.info("stopped")
    }

    private func loadToken(_ cluster: ClusterParts?, _ store: TemplateStore) throws -> TokenFile {
        let token = try TokenFile.load(directory: configuration.data, file: configuration.control.tokenFile)
        for warning in token.warnings { logger.warning("\(warning)") }
        if let cluster {
            ClientIdentity.share(secret: "clients \(token.digest.hexadecimal) \(store.epoch)")
            cluster.describe(try cluster.marks(of: configuration, token))
        }
        return token
    }

    /// Every service, in the order of their start. They end in reverse, as ``EndingStages`` says: Control finishes its
    /// publishes before Edge ends the streams that hear of them.
    private func services(
        of parts: Parts, _ keeper: ReleaseKeeper, controlTLS: TLSServer?
    ) throws -> [any Service] {
        let started = Startup(configuration: configuration, logger: logger)
        let keySets = KeySetKeeper(configuration, parts.access, parts.descriptors.issuers, logger)
        keySets.readFiles()
        let hook = try HookAsker(configuration, parts.access, parts.descriptors.hook, logger)
        let refusals = RefusalLog(edge: parts.edge, access: parts.access, audit: parts.audit, logger: logger)
        let signIn = SignInService(parts.access, policy: keySets.policy, logger: logger) { try keySets.engine() }
        let control = try ControlService(
            parts, configuration, tls: controlTLS, ControlTally(), signIn, started, logger)
        let (endings, drain, signals, logger) = (signals.endings, configuration.shutdown.drain, signals, logger)
        let (webhookEnding, endWebhooks) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        return [
            Work { try await parts.watchStore(logger) },
            Work {
                // The daemon ends, cancelled or asked nicely.
                if let cluster = parts.cluster { try await cluster.run(parts) } else { try? await gracefulShutdown() }
            },
            Work { await parts.sweepStore() },
            Work { await keeper.run() },
            Work { await parts.keepPropagation() },
            Work { await parts.keepTimeline() },
            Work { await parts.keepCertificates() },
            Work { await parts.watchDescriptors(logger) },
            Work { await ClockWatch.run(logger) },
            Work { await keySets.run() },
            Work {
                // The daemon ends, cancelled or asked nicely.
                if let hook { await hook.run() } else { try? await gracefulShutdown() }
            },
            // Returns when a signal asks the daemon to end; its return shuts the whole group down.
            Work { for await _ in endings.cancelOnGracefulShutdown() { return } },
            ReloadService(
                parts: parts, signals: signals.reloads, running: configuration, reload: reload,
                logger: logger),
            Work { await parts.deliverWebhooks(until: webhookEnding) },
            Work { try await parts.serveEdge(drain: drain, started) },
            // Counts subscribers, so it ends before Edge does.
            Work { await parts.versions.run(counting: parts.edge) },
            refusals,
            Work {
                // Cancelled or asked nicely: it is the end.
                try? await gracefulShutdown()
                endWebhooks.finish()
            },
            Work { await parts.publishScheduled(configuration, logger) },
            Work { await parts.watchSources() },
            control,
            Work { await parts.untilEnding(drain: drain, started, signals, logger) },
        ]
    }

    private func group(of services: [any Service]) -> ServiceGroup {
        // At debug it says of each service that it begins and ends; nearly all are called `Work`.
        var discreet = logger
        discreet.logLevel = max(logger.logLevel, .info)
        var group = ServiceGroupConfiguration(
            services: services.map {
                // Without a name it prints the whole service, with the secrets in its configuration; that takes 20 ms.
                .init(
                    service: $0, successTerminationBehavior: .gracefullyShutdownGroup,
                    failureTerminationBehavior: .gracefullyShutdownGroup, serviceName: "\(type(of: $0))")
            },
            logger: discreet)
        group.maximumGracefulShutdownDuration = EndingStages.services
        return ServiceGroup(configuration: group)
    }

    /// Logs the findings of `stalecast doctor` in short form.
    private func sayWhatTheMachineAllows() {
        for finding in SystemCheck(configuration).findings {
            let metadata: Logger.Metadata = ["finding": "\(finding.sentence)"]
            if let command = finding.command {
                logger.warning("machine", metadata: metadata.merging(["command": "\(command)"]) { $1 })
            } else if finding.subject == "descriptors" {
                logger.info("machine", metadata: metadata)
            }
        }
    }

    private func openStore() throws -> TemplateStore {
        let logger = logger
        return try TemplateStore.open(configuration.storeConfiguration) { notice in
            logger.log(notice)
        }
    }

    private static func openAudit(_ configuration: Configuration, _ logger: Logger) throws(StartError) -> AuditLog {
        let audit: AuditLog
        do throws(AuditLog.Problem) {
            audit = try AuditLog(directory: configuration.data, limits: configuration.audit)
        } catch {
            throw StartError("\(error)")
        }
        if let loss = audit.loss {
            logger.error("audit log does not go on where it ended", metadata: ["finding": "\(loss)"])
        }
        ClockWatch.check(against: audit.formerEnd, logger)
        audit.write("daemon.start", ["version": .string(DaemonVersion.text)])
        audit.mark()
        let end = audit.end
        logger.info("audit log", metadata: ["lines": "\(end.count)", "hash": "\(end.hash)"])
        return audit
    }

    /// Adds the lines that the audit log lacks for changes that the previous process committed.
    private func complete(_ copies: AuditCopies) throws {
        let done = try copies.completeLog()
        if done.written > 0 {
            logger.notice("audit log lacked lines of committed changes", metadata: ["written": "\(done.written)"])
        }
        if done.failed > 0 {
            logger.error(
                "audit log lacks lines of committed changes; free some space, and the next start writes them",
                metadata: ["missing": "\(done.failed)"])
        }
        // The next start finds the entries again; their lines are written already.
        if let problem = done.problem {
            logger.warning("entries of the audit log stay in the store", metadata: ["error": "\(problem)"])
        }
    }

    private static func makeAccess(
        _ store: TemplateStore, _ configuration: Configuration, _ token: TokenFile
    ) throws -> Authorizer {
        let access = Authorizer(bootstrap: configuration.control.tokenEnabled ? token.digest : nil)
        for record in try store.keyRecords() { access.put(try AccessKey(record: record)) }
        access.configure(configuration)
        return access
    }

}

extension Logger {
    /// A store's notice as a line of ours.
    func log(_ notice: TemplateStore.LogLine) {
        let level: Logger.Level =
            switch notice.level {
            case .info: .info
            case .warning: .warning
            case .error: .error
            }
        log(level: level, "\(notice.message)", metadata: notice.details.mapValues { .string($0) })
    }
}
