package import StalecastWire

/// Plan by which a scope releases its versions, as configured.
package struct ReleasePlan: Sendable, Equatable {
    package let scope: Scope
    package let policy: ReleasePolicy
    /// Whether a publish that does not say how is staged.
    package let isStagedByDefault: Bool

    package init(scope: Scope, policy: ReleasePolicy, isStagedByDefault: Bool) {
        (self.scope, self.policy, self.isStagedByDefault) = (scope, policy, isStagedByDefault)
    }
}
