import CLinux
import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import StalecastAccess
import StalecastControl
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastStore

/// Control as a service, over the other parts.
struct ControlService: Service {
    private let server: ControlServer
    private let address: ListenAddress

    func run() async throws {
        do {
            try await server.run()
        } catch let error as IOError {
            let reason =
                switch error.errnoCode {
                case EADDRINUSE: "another process uses that port; stop it or choose another with --control"
                case EADDRNOTAVAIL: "no interface of this machine has that address; choose another with --control"
                default: String(cString: strerror(error.errnoCode))
                }
            throw StartError("control cannot listen on \(address): \(reason)")
        }
    }

    init(
        _ parts: Daemon.Parts, _ configuration: Configuration, tls: TLSServer?, _ tally: ControlTally,
        _ signIn: SignInService, _ started: Startup, _ logger: Logger
    ) throws(StartError) {
        address = configuration.control.listen
        var settings = ControlConfiguration(
            host: try configuration.control.listen.resolvedHost(), port: configuration.control.listen.port)
        settings.settings = configuration.control.settings
        let hosts = settings.settings.hosts
        settings.connections.drainTimeout = EndingStages.controlRequests
        settings.connections.hosts =
            hosts.isEmpty && !configuration.control.listen.isLoopback ? .any : .only(hosts)
        settings.projects.approvals = Set(configuration.projects.filter { $0.approvals == .required }.map(\.id))
        settings.projects.releases = Dictionary(uniqueKeysWithValues: configuration.releases.map { ($0.scope, $0) })
        settings.version = DaemonVersion.text
        settings.tls = tls
        settings.capacity = parts.controlCapacity
        settings.projects.namespaces = Dictionary(
            uniqueKeysWithValues: configuration.projects.map { ($0.id, $0.namespaces) })
        settings.projects.feeds = parts.sources.words
        let control = Control(
            settings, access: parts.access,
            sessions: ConsoleSessions(
                signIn: signIn,
                file: SessionFile(directory: configuration.data) { problem in
                    logger.warning("console sessions end with the daemon", metadata: ["error": "\(problem)"])
                }),
            store: parts.store, hub: parts.hub, webhooks: parts.webhooks.service,
            triggers: parts.sources.service, tally: tally, audit: parts.copies,
            bypassed: { version, actor in
                logger.warning(
                    "published without the required approval",
                    metadata: ["scope": "\(version.scope)", "version": "\(version.version)", "actor": "\(actor)"])
            },
            reports: ControlReports(
                presence: { await parts.subscribers(of: $0, $1) },
                reach: { await parts.edge.streamCounts(of: $0) }, metrics: { await Self.metrics(parts, tally, signIn) },
                status: { await StatusReport(daemon: parts).json() },
                timeline: { await parts.timelineReport() },
                readiness: { await parts.readiness.reasons() }, degraded: { parts.readiness.degraded }),
            cluster: parts.cluster?.service,
            relay: parts.cluster?.relay,
            keys: parts.keys)
        server = ControlServer(control, eventLoopGroup: MultiThreadedEventLoopGroup.singleton) { port in
            started.controlListens(on: port)
        }
    }

    private static func metrics(
        _ parts: Daemon.Parts, _ requests: ControlTally, _ signIn: SignInService
    ) async -> String {
        var text = MetricsText()
        text.edge(parts.edge.tally, connections: parts.edge.connections, presence: await parts.edge.presence())
        text.fetches(parts.edge.tally.fetches, renderings: parts.served.renderings)
        await text.webhooks(parts.webhooks)
        text.sources(parts.sources)
        text.propagation(parts.hub.propagation, parts.scopes)
        text.gates(of: parts.store.openReleases, parts.hub.releases)
        text.herds(parts.hub, parts.scopes)
        text.releases(parts.store, parts.releases, parts.scopes)
        text.canaries(parts.edge.observations)
        text.store(parts.store, canCommit: await parts.store.health.canCommit)
        text.tls(parts.tls)
        text.control(requests)
        text.access(parts.access)
        text.tokens(parts.access.tokens)
        text.signIns(signIn.counts)
        text.single(
            "stalecast_audit_failures_total", "Lines of the audit log that could not be written.",
            Double(parts.audit.failures))
        text.single(
            "stalecast_audit_rotation_failing",
            "1 while the audit log continues in a full file, because it cannot begin a new one.",
            parts.audit.rotationProblem == nil ? 0 : 1)
        if let cluster = parts.cluster { await text.cluster(cluster) }
        text.reloads(parts.reloads)
        text.process(startedAt: parts.startedAt)
        return text.text
    }
}

extension MetricsText {
    fileprivate mutating func tokens(_ tokens: TokenVerifier) {
        let (reports, counts) = (tokens.reports, tokens.counts)
        family(
            "stalecast_issuer_keys", "Keys of an issuer that can be used; 0 refuses its tokens with 503.",
            reports.map { ([("issuer", $0.name)], Double($0.keys)) })
        family(
            "stalecast_issuer_keys_failing", "1 while an issuer's key set cannot be fetched; old keys go on.",
            reports.map { ([("issuer", $0.name)], $0.problem == nil ? 0 : 1) })
        single(
            "stalecast_tokens_cached", "Tokens that are known without looking at their signature again.", counts.cached)
        single(
            "stalecast_tokens_verified_total", "Signatures of tokens that were looked at, and good.", counts.verified)
    }

    fileprivate mutating func signIns(_ counts: [SignInService.CountKind: Int]) {
        let sorted = counts.sorted { ($0.key.issuer, $0.key.outcome) < ($1.key.issuer, $1.key.outcome) }
        family(
            "stalecast_console_sign_ins_total", "Sign-ins to the console with an issuer, by outcome.",
            sorted.map { ([("issuer", $0.key.issuer), ("outcome", $0.key.outcome)], Double($0.value)) })
    }

    fileprivate mutating func access(_ access: Authorizer) {
        let refusals = access.refusals.sorted { $0.key.labels < $1.key.labels }
        family(
            "stalecast_auth_refusals_total",
            "Requests refused for their credentials or grants; with enforced false, that would have been.",
            refusals.map { kind, refused in
                let (listener, reason, isEnforced) = kind.labels
                return ([("listener", listener), ("reason", reason), ("enforced", isEnforced)], Double(refused.count))
            })
    }

    fileprivate mutating func control(_ tally: ControlTally) {
        family(
            "stalecast_control_requests_total", "Requests to the private listener by operation and status.",
            tally.requests.map {
                ([("operation", $0.kind.operation), ("status", String($0.kind.status))], Double($0.count))
            })
    }
}

extension Authorizer.RefusedKind {
    fileprivate var labels: (String, String, String) { (listener.rawValue, reason.rawValue, String(isEnforced)) }
}
