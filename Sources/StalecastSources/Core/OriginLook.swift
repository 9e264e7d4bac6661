import StalecastTemplate
package import StalecastWire

/// What a look at an origin found.
package enum OriginLook: Sendable, Hashable {
    /// The same as the look before.
    case unchanged
    case seen(OriginSight)
    case failed(OriginProblem)
}

/// A template as the origin has it now.
package struct OriginSight: Sendable, Hashable {
    package var content: OriginContent
    /// What the origin says about the version; nil where it says nothing.
    package var metadata: VersionMetadata?
    /// Of the answer it was read from, as received; nil when there was none.
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

    /// What the origin says about the version, in words.
    package var description: String { metadata?.description ?? content.template.requestedDescription }
}
