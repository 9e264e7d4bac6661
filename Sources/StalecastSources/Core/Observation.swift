package import StalecastWire

/// What a look saw, on its way to be adopted.
package struct Observation: Sendable {
    package let scope: Scope
    package let sight: OriginSight
    package let seenAt: Timestamp
    /// True when the origin's public answer did not show it in time, and it is announced all the same.
    package let hasFenceTimedOut: Bool

    package init(scope: Scope, sight: OriginSight, seenAt: Timestamp, hasFenceTimedOut: Bool = false) {
        self.scope = scope
        self.sight = sight
        self.seenAt = seenAt
        self.hasFenceTimedOut = hasFenceTimedOut
    }
}

/// Where observations go: the store, as the daemon wires it.
package struct SourceSink: Sendable {
    /// Whether a sight would become a version, so that fencing it is worth the wait. Must not block.
    package var judge: @Sendable (Scope, OriginSight) -> AdoptVerdict
    /// Commits it. Returns when it is durable, visible and announced.
    package var adopt: @Sendable (Observation) async -> AdoptOutcome

    package init(
        judge: @escaping @Sendable (Scope, OriginSight) -> AdoptVerdict,
        adopt: @escaping @Sendable (Observation) async -> AdoptOutcome
    ) {
        self.judge = judge
        self.adopt = adopt
    }
}

/// How a sight relates to the scope's current version.
package enum AdoptVerdict: Sendable, Hashable {
    case isNew
    /// It is what is current here.
    case isCurrent
    /// It must not be adopted; says why.
    case isRefused(OriginProblem)
}

/// How adopting ended.
package enum AdoptOutcome: Sendable, Hashable {
    case adopted(VersionNumber)
    case unchanged
    /// Not adopted; the sight is to be looked for again.
    case failed(OriginProblem)
}
