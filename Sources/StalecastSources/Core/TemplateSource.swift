import StalecastTemplate
package import StalecastWire

/// Kind of origin from which a scope's versions come. Raw values are those of the configuration, of `/status` and of
/// metrics.
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
    /// Place for people: a path, or a URL without its query.
    var place: String { get }

    /// One look. Never called again before it returned. What cannot be used is reported by every look until there is
    /// something else.
    func poll() async -> OriginPoll

    /// Makes the next look report what it finds even when it found that before: it could not be adopted.
    func forget()

    /// Watches for changes until the task is cancelled, where the source can: calls `onChange`, on any thread, when it
    /// is worth looking, with the version that should be seen or nil. Returns at once where it cannot.
    func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async

    /// State of listening; nil where the source only looks.
    var listening: SourceStatus.Listening? { get }
}

extension TemplateSource {
    package var listening: SourceStatus.Listening? { nil }

    package func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async {}
}

/// Result of a look at an origin.
package enum OriginPoll: Sendable, Hashable {
    /// Content that equals that of the look before.
    case unchanged
    case seen(Sight)
    case failed(OriginProblem)

    /// A template as the origin has it now.
    package struct Sight: Sendable, Hashable {
        package var content: OriginContent
        /// Metadata that the origin gives to the version; nil where it gives none.
        package var metadata: VersionMetadata?
        /// Tag of the answer it was read from, as received; nil when there was none.
        package var etag: String?
        /// Clients are asked to fetch at once, whatever the herd window.
        package var isUrgent: Bool

        package init(
            content: OriginContent, metadata: VersionMetadata? = nil, etag: String? = nil, isUrgent: Bool = false
        ) {
            self.content = content
            self.metadata = metadata
            self.etag = etag
            self.isUrgent = isUrgent
        }

        /// Description that the origin gives to the version.
        package var description: String { metadata?.description ?? content.template.requestedDescription }
    }
}
