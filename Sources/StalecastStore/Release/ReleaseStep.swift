package import StalecastWire

/// Effect of a commit on a release, for the announcement.
package struct ReleaseStep: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// Nothing that clients are told of: a pause, a resume, or the end of the bake time.
        case noted
        /// The version is new; its first stage is reached.
        case began
        /// Further stages are reached.
        case reached
        /// The version brings back the content of before, for the stages that were told.
        case rolledBack
        /// Another version took the place of the release's.
        case superseded
    }

    package let kind: Kind
    package let release: Release
    /// Places in the policy's stages that this commit reaches.
    package let stages: Range<Int>
    /// Sequence of this commit; a later stage's is higher than its version's.
    package let sequence: CommitSequence

    package init(kind: Kind, release: Release, stages: Range<Int>, sequence: CommitSequence) {
        (self.kind, self.release, self.stages, self.sequence) = (kind, release, stages, sequence)
    }

    /// The last stage is reached.
    package var isWhole: Bool { stages.upperBound == release.policy.stages.count }

    /// Effect of a commit on the releases of its scope; nil: none.
    ///
    /// - Parameters:
    ///   - releases: those that it changed, as they are afterwards, oldest first.
    ///   - former: the newest before it.
    ///   - change: the commit: a version, or the version that is released at a sequence of its own.
    init?(_ releases: [Release], after former: Release?, in change: TemplateChange) {
        guard let release = releases.last else { return nil }
        let told = release.stagesTold
        if release.version != change.version {
            let kind: Kind = release.state == .rolledBack ? .rolledBack : .superseded
            self.init(kind: kind, release: release, stages: 0..<told, sequence: change.sequence)
        } else if let former, former.version == release.version {
            let before = min(former.stagesTold, told)
            self.init(
                kind: told > before ? .reached : .noted, release: release, stages: before..<told,
                sequence: change.sequence)
        } else {
            self.init(kind: .began, release: release, stages: 0..<told, sequence: change.sequence)
        }
    }
}
