import CLinux
import Logging
import ServiceLifecycle
import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWire

/// Carries releases to their clients: what a commit reaches is first fetchable, then announced, and each second what is
/// due by the clock is committed.
struct ReleaseConductor: Sendable {
    let store: TemplateStore
    let hub: Hub
    let served: ServedTemplates
    let versions: VersionLog
    let logger: Logger

    /// Called on the store's writer, in the order of commits.
    func announce(_ step: ReleaseStep, of version: StoredVersion) {
        let (release, scope) = (step.release, version.scope)
        var audience: ReleaseAudience? = ReleaseAudience(stages: step.stages, isWhole: step.isWhole)
        switch step.kind {
        case .began:
            let cut = release.cut
            hub.releases.begin(release, at: stalecast_monotonic_ns())
            served.stage(version.template, version.change, cut, stages: step.stages.upperBound)
            hub.split(scope, by: cut)
        case .reached: served.cover(scope, stages: step.stages.upperBound)
        case .rolledBack:
            served.install(version.template, version.change)
            // For all others nothing changed; whoever asks without being a client may as well know the number.
            audience = ReleaseAudience(stages: step.stages, isWhole: true)
        case .superseded:
            served.install(version.template, version.change)
            audience = nil
        }
        hub.releases.reached(scope, at: stalecast_monotonic_ns())
        let change = step.sequence == version.change.sequence ? version.change : version.change.at(step.sequence)
        let topics = hub.announce(change, to: audience, at: stalecast_monotonic_ns())
        versions.announced(change, on: topics)
        logger.notice(
            "release",
            metadata: [
                "scope": "\(scope)", "version": "\(release.version)", "state": "\(release.state.rawValue)",
                "percent": "\(Double(release.covered) / 100)",
            ])
    }

    // MARK: At start

    /// Splits the topics of a scope as they were before the restart.
    static func restore(_ board: inout TopicBoard, _ scope: Scope, _ store: TemplateStore) {
        guard let release = store.release(of: scope), let current = store.currentTemplates[scope]?.change else {
            return
        }
        if release.version == current.version {
            board.restore(
                release.cut, of: scope, told: current, sequences: release.sequences, isWhole: release.isWhole)
        } else if release.isTakenBack(by: current) {
            // Clients that were not told of the release hold the same content.
            let sequences = release.sequences.map { $0.map { _ in current.sequence } }
            board.restore(release.cut, of: scope, told: current, sequences: sequences, isWhole: true)
        }
    }

    /// Makes what was served before the restart fetchable.
    static func install(_ scope: Scope, _ store: TemplateStore, _ served: ServedTemplates) async throws {
        guard let current = store.currentTemplates[scope] else { return }
        guard let release = store.release(of: scope), release.isOpen, !release.isWhole,
            release.version == current.version, let base = try await store.version(release.base, of: scope)
        else { return served.install(current.template, current.change) }
        served.install(base.template, base.change)
        served.stage(current.template, current.change, release.cut, stages: release.stagesTold)
    }

    /// What webhooks may have been told of: not the version of an open release.
    static func settled(_ changes: [TemplateChange], _ store: TemplateStore) -> [TemplateChange] {
        changes.filter { change in
            guard let release = store.release(of: change.scope), release.isOpen, !release.isWhole else { return true }
            return change.version < release.version
        }
    }
}

extension Release {
    /// How the hub and the fetches split clients.
    var cut: ReleaseCut {
        ReleaseCut(
            scope, version, bounds: policy.stages, first: policy.first, splitsAddresses: policy.anonymous == .address)
    }

    /// All stages were told.
    var isWhole: Bool { stagesTold == policy.stages.count }

    fileprivate func isTakenBack(by change: TemplateChange) -> Bool {
        state == .rolledBack && change.version == version.next && change.metadata.rollbackSource == base
    }
}
