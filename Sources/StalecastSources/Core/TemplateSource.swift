package import StalecastWire

/// What a scope's versions come from. Raw values are those of the configuration, of `/status` and of metrics.
package enum SourceKind: String, Sendable, Hashable, CaseIterable {
    /// Published through our API; nothing to look at.
    case store
    case file
    case http
    case firebase
}

/// Something outside that can be looked at for a scope's newest template.
package protocol TemplateSource: Sendable {
    var kind: SourceKind { get }
    /// Where it is, for people: a path, or a URL without its query.
    var place: String { get }

    /// One look. Never called again before it returned. What cannot be used is reported by every look until there is
    /// something else.
    func look() async -> OriginLook

    /// Makes the next look report what it finds even when it found that before: it could not be adopted.
    func forget()

    /// Watches for changes until the task is cancelled, where the source can: calls `onChange`, on any thread, when it
    /// is worth looking, with the version that should be seen or nil. Returns at once where it cannot.
    func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async

    /// How listening goes; nil where the source only looks.
    var listening: SourceStatus.Listening? { get }
}

extension TemplateSource {
    package var listening: SourceStatus.Listening? { nil }

    package func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async {}
}
