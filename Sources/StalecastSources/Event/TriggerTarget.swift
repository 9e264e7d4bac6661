package import StalecastWire

/// A scope whose source can be told to look.
package struct TriggerTarget: Sendable {
    package let scope: Scope
    /// The names an event may give the project, local and at the origin, ids and numbers.
    package var projectNames: Set<String>
    /// Tokens that may trigger this scope and nothing else.
    package var tokens: [TriggerToken]
    /// For Standard-Webhooks-signed posts.
    package var keys: [SignedPost.Key]
    /// The newest version of the origin that was adopted; nil when none was, or the origin has no numbers. Called on
    /// any thread, must not block.
    package var knownVersion: @Sendable () -> VersionNumber?
    /// Makes the source look now; `expecting` is the version it should see, nil when the event named none. Returns at
    /// once.
    package var look: @Sendable (_ expecting: VersionNumber?) -> Void

    package init(
        scope: Scope, projectNames: Set<String>, tokens: [TriggerToken] = [], keys: [SignedPost.Key] = [],
        knownVersion: @escaping @Sendable () -> VersionNumber?,
        look: @escaping @Sendable (_ expecting: VersionNumber?) -> Void
    ) {
        self.scope = scope
        self.projectNames = projectNames
        self.tokens = tokens
        self.keys = keys
        self.knownVersion = knownVersion
        self.look = look
    }

    /// Whether the event can be about this scope.
    func concerns(_ event: SourceEvent) -> Bool {
        if let namespace = event.namespace, namespace != scope.namespace.description { return false }
        guard let project = event.project else { return true }
        return projectNames.contains(project)
    }

    /// Whether the version the event tells of was adopted already.
    func knows(_ event: SourceEvent) -> Bool {
        guard let version = event.version, let known = knownVersion() else { return false }
        return version <= known
    }
}
