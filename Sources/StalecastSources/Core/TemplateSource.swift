import StalecastTemplate
package import StalecastWire

/// Kind of origin from which a scope's versions come. Raw values are those of the configuration, of `/status` and of
/// metrics.
package enum SourceKind: String, Sendable, Hashable, CaseIterable {
    /// Versions are published through the API; there is nothing to poll.
    case store
    case file
    case http
    case firebase
}

/// Origin outside the daemon that is polled for a scope's newest template.
package protocol TemplateSource: Sendable {
    var kind: SourceKind { get }
    /// Origin's name in logs and `/status`: a path, or a URL without its query.
    var place: String { get }

    /// Reads the origin once. Calls never overlap. A template that cannot be used is reported by every poll until the
    /// origin has another one.
    func poll() async -> OriginPoll

    /// Makes the next poll report what it finds even if nothing changed, because the last result could not be adopted.
    func forget()

    /// Watches for changes until the task is cancelled; returns at once for a source that cannot. Calls `onChange` on
    /// any thread when a poll is worthwhile, with the version to expect or nil.
    func listen(onChange: @escaping @Sendable (VersionNumber?) -> Void) async

    /// State of listening; nil for a source that is only polled.
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
            (self.content, self.metadata, self.etag, self.isUrgent) = (content, metadata, etag, isUrgent)
        }

        /// Description that the origin gives to the version.
        package var description: String { metadata?.description ?? content.template.requestedDescription }
    }
}
