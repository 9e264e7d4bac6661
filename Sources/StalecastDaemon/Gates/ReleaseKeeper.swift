import CLinux
import Logging
import ServiceLifecycle
import StalecastControl
import StalecastHub
import StalecastStore
import StalecastWire

/// Moves open releases on when their time has come, and stops those whose gates trip.
struct ReleaseKeeper: Sendable {
    let store: TemplateStore
    let hub: Hub
    let probes: GateProbes
    let audit: AuditLog
    let logger: Logger

    /// Compares the streams of releases that were open before a restart. Call it before clients connect.
    func restore() {
        for release in store.openReleases { hub.releases.begin(release, at: stalecast_monotonic_ns()) }
    }

    /// Looks each second until told to end.
    func run() async {
        var paused: Set<Scope> = []
        for await _ in AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown() {
            let open = store.openReleases
            hub.releases.keep { scope, version in open.contains { $0.scope == scope && $0.version == version } }
            probes.keep(open)
            for release in open {
                if release.state != .paused, paused.contains(release.scope) { hub.releases.resumed(release.scope) }
                await look(at: release)
            }
            paused = Set(open.filter { $0.state == .paused }.map(\.scope))
        }
    }

    private func look(at release: Release) async {
        let time = stalecast_monotonic_ns()
        var facts = GateFacts()
        facts.clients = hub.propagation.clients(ofRelease: release.version, in: release.scope)
        facts.loss = hub.releases.look(release.scope, at: time)
        (facts.prometheus, facts.url) = probes.answers(for: release, at: time)
        let readings = release.policy.gates.readings(facts)
        hub.releases.show(readings, of: release.scope, release.version)
        do throws(StoreError) {
            switch release.decision(readings, at: .now()) {
            case .goOn:
                guard release.due(at: .now()) != nil else { return }
                _ = try await store.change(releaseOf: release.scope, .proceed, by: Release.schedule)
            case .pause(let gate):
                let paused = try await store.change(
                    releaseOf: release.scope, .pause, by: Release.gatePrefix + gate.name, reason: gate.detail,
                    figures: gate.json)
                audit.write("pauseRelease", gate.auditEntry(paused))
                log("gate pauses the release", release, gate)
            case .rollBack(let gate):
                let version = try await store.rollBack(
                    releaseOf: release.scope, by: Release.gatePrefix + gate.name, reason: gate.detail,
                    figures: gate.json)
                audit.write("rollbackRelease", gate.auditEntry(release, version))
                log("gate rolls the release back", release, gate)
            }
        } catch {
            logger.error(
                "release does not go on",
                metadata: ["scope": "\(release.scope)", "version": "\(release.version)", "error": "\(error)"])
        }
    }

    private func log(_ message: Logger.Message, _ release: Release, _ gate: GateReading) {
        logger.warning(
            message,
            metadata: [
                "scope": "\(release.scope)", "version": "\(release.version)", "gate": "\(gate.name)",
                "figures": "\(String(decoding: gate.json.encoded(), as: UTF8.self))",
            ])
    }
}

extension ReleaseWatch {
    /// Starts to compare the streams of a release whose gate `loss` is on.
    func begin(_ release: Release, at time: UInt64) {
        if let gate = release.lossGate(at: time) { begin(release.version, of: release.scope, gate) }
    }
}
