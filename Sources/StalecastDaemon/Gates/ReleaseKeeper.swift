import CLinux
import Logging
import ServiceLifecycle
import StalecastControl
import StalecastHub
import StalecastRecords
import StalecastStore
import StalecastWire

/// Moves open releases on when their time has come, and stops those whose gates trip.
struct ReleaseKeeper: Sendable {
    let store: TemplateStore
    let hub: Hub
    let probes: GateProbes
    /// nil: this daemon is one by itself.
    let cluster: ClusterParts?
    let copies: AuditCopies
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
                await judge(release)
            }
            paused = Set(open.filter { $0.state == .paused }.map(\.scope))
        }
    }

    private func judge(_ release: Release) async {
        let time = stalecast_monotonic_ns()
        // One node of a cluster conducts, and every node watches its own streams.
        let ownership = cluster?.conducts(release.scope)
        let isConductor = cluster == nil || ownership != nil
        let facts = facts(of: release, asksOutside: isConductor, at: time)
        let readings = release.policy.gates.readings(facts)
        hub.releases.show(readings, facts.clients.reach, of: release.scope, release.version)
        // An edge changes nothing; reports of its clients go to the conductor.
        if cluster?.isEdge == true { return }
        let decisive = isConductor ? readings : readings.filter { $0.name == "loss" && $0.verdict == .tripped }
        do throws(StoreError) {
            switch release.decision(decisive, at: .now()) {
            case .goOn:
                guard isConductor, release.due(at: .now()) != nil else { return }
                let decision = ReleaseDecision(by: Release.schedule, seen: release, under: ownership)
                _ = try await store.change(releaseOf: release.scope, .proceed, decision)
            case .pause(let gate):
                let decision = gate.decision(over: release, under: ownership)
                let paused = try await store.change(releaseOf: release.scope, .pause, decision)
                copies.audit.write("pauseRelease", gate.auditEntry(paused, .paused))
                log("gate pauses the release", release, gate)
            case .rollBack(let gate):
                let entry = gate.auditEntry(release, .rolledBack)
                _ = try await copies.recording("rollbackRelease", entry) { () throws(StoreError) in
                    try await store.rollBack(
                        releaseOf: release.scope, gate.decision(over: release, under: ownership))
                }
                log("gate rolls the release back", release, gate)
            }
        } catch {
            // An operator or another node was first; the next look sees what is now.
            if case .releaseRefused = error { return }
            logger.error(
                "release does not go on",
                metadata: ["scope": "\(release.scope)", "version": "\(release.version)", "error": "\(error)"])
        }
    }

    private func facts(of release: Release, asksOutside: Bool, at time: UInt64) -> GateFacts {
        let (scope, version) = (release.scope, release.version)
        var facts = GateFacts()
        // Nodes that are gone must not count: the list is of this moment.
        if let cluster { hub.propagation.setNodes(cluster.nodes.others) }
        facts.clients =
            hub.propagation.clients(ofRelease: version, in: scope)
            + hub.propagation.clientsElsewhere(ofRelease: version, in: scope)
        facts.loss = hub.releases.judge(scope, at: time)
        if asksOutside { (facts.prometheus, facts.url) = probes.answers(for: release, at: time) }
        return facts
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

extension GateReading {
    fileprivate func decision(over release: Release, under ownership: Ownership?) -> ReleaseDecision {
        ReleaseDecision(
            by: Release.gatePrefix + name, reason: detail, figures: json, seen: release, under: ownership)
    }
}

extension ReleaseWatch {
    /// Starts to compare the streams of a release whose gate `loss` is on.
    func begin(_ release: Release, at time: UInt64) {
        if let gate = release.lossGate(at: time) { begin(release.version, of: release.scope, gate) }
    }
}
