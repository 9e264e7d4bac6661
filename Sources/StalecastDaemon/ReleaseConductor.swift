import Logging
package import StalecastEdge
package import StalecastHub
package import StalecastStore
package import StalecastWire

/// Carries releases to their clients: makes a version fetchable for the stages that a commit reaches, then announces
/// it.
package struct ReleaseConductor: Sendable {
    private let hub: Hub
    private let served: ServedTemplates

    package init(_ hub: Hub, _ served: ServedTemplates) {
        self.hub = hub
        self.served = served
    }

    /// Announces a step. Call it on the store's writer, in the order of commits.
    ///
    /// - Returns: the change that was announced, and its topics; nil for a step that clients are not told of.
    package func announce(
        _ step: ReleaseStep, of version: StoredVersion, at time: UInt64
    ) -> (change: TemplateChange, topics: [TopicName])? {
        let scope = version.scope
        var audience: ReleaseAudience? = ReleaseAudience(stages: step.stages, isWhole: step.isWhole)
        switch step.kind {
        case .noted:
            // In a cluster it has a sequence of its own, which a client may bring as a cursor from another node.
            if step.sequence > hub.headSequence { hub.pass(version.change.at(step.sequence), at: time) }
            return nil
        case .began:
            let cut = step.release.cut
            hub.releases.begin(step.release, at: time)
            served.stage(
                version.template, version.change, cut, stages: step.stages.upperBound, ready: version.ready)
            hub.split(scope, by: cut)
        case .reached: served.cover(scope, stages: step.stages.upperBound)
        case .rolledBack:
            served.install(version.template, version.change, ready: version.ready)
            // Nothing changed for the others. The topics themselves have no clients, so they may hold the new number.
            audience = ReleaseAudience(stages: step.stages, isWhole: true)
        case .superseded:
            served.install(version.template, version.change, ready: version.ready)
            audience = nil
        }
        hub.releases.reached(scope, at: time)
        let change = step.sequence == version.change.sequence ? version.change : version.change.at(step.sequence)
        return (change, hub.announce(change, to: audience, at: time))
    }

    // MARK: At start

    /// Changes of one scope, each at the sequence that the hub had for it before the restart: a version that was
    /// released in stages at the sequence of its last stage, a version that only some clients were told of at that of
    /// the next version that all were told of.
    package static func lastTold(_ changes: [TemplateChange], _ releases: [Release]) -> [TemplateChange] {
        let byVersion = Dictionary(releases.map { ($0.version, $0) }) { first, _ in first }
        /// Whether the change rolls back a release that only some clients were told of: only they heard of the
        /// rollback.
        func isPartialRollback(_ place: Int) -> Bool {
            guard place > 0, let release = byVersion[changes[place - 1].version] else { return false }
            return !release.isWhole && release.state == .rolledBack && release.successor == changes[place].version
        }
        var told = changes
        for place in changes.indices.reversed() {
            let (release, next) = (byVersion[changes[place].version], place + 1)
            if next < changes.count {
                let isPartial = release.map { !$0.isWhole } ?? isPartialRollback(place)
                // A new release splits the clients again, whatever they were told of before.
                let isSplitAnew = isPartialRollback(place) && byVersion[changes[next].version] != nil
                if isPartial, !isSplitAnew {
                    let after = isPartialRollback(next) ? told[next] : changes[next]
                    told[place] = changes[place].at(after.sequence)
                    continue
                }
            }
            if let last = release?.reached.last { told[place] = changes[place].at(last.sequence) }
        }
        return told
    }

    /// Splits the topics of a scope as they were before the restart.
    package static func restore(_ board: inout TopicBoard, _ release: Release?, _ current: TemplateChange?) {
        guard let release, let current else { return }
        if release.version == current.version {
            board.restore(
                release.cut, of: release.scope, told: current, sequences: release.sequences, isWhole: release.isWhole)
        } else if release.isTakenBack(by: current) {
            // Clients that were not told of the release hold the same content.
            let sequences = release.sequences.map { $0.map { _ in current.sequence } }
            board.restore(release.cut, of: release.scope, told: current, sequences: sequences, isWhole: true)
        }
    }

    /// Makes the versions fetchable that were so before the restart.
    ///
    /// - Parameter base: the version before that of an open release.
    package func restore(_ release: Release?, _ current: StoredVersion, _ base: StoredVersion?) {
        guard let release, let base, release.isSplitting(current.change) else {
            served.install(current.template, current.change)
            return
        }
        served.install(base.template, base.change)
        served.stage(current.template, current.change, release.cut, stages: release.stagesTold)
    }
}

extension Release {
    /// Rule by which hub and fetches split clients.
    package var cut: ReleaseCut {
        ReleaseCut(
            scope, version, bounds: policy.stages, first: policy.first, splitsAddresses: policy.anonymous == .address)
    }

    /// True once all stages were told.
    package var isWhole: Bool { stagesTold == policy.stages.count }

    /// Whether some clients get the version and others its base.
    func isSplitting(_ current: TemplateChange) -> Bool { isOpen && !isWhole && version == current.version }

    fileprivate func isTakenBack(by change: TemplateChange) -> Bool {
        state == .rolledBack && change.version == successor && change.metadata.rollbackSource == base
    }
}

extension Release {
    func log(_ logger: Logger) {
        logger.notice(
            "release",
            metadata: [
                "scope": "\(scope)", "version": "\(version)", "state": "\(state.rawValue)",
                "percent": "\(Double(covered) / 100)", "by": "\(events.last?.by ?? "")",
            ])
    }
}
