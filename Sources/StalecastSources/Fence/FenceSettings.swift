package import StalecastOutbound
package import StalecastTemplate
package import StalecastWire

/// How to find out what an origin's clients are answered now, before a version is announced.
package struct FenceSettings: Sendable {
    /// A URL that answers as clients are answered: behind the same cache, from the same replicas.
    package var url: OutboundURL
    package var proof: Proof
    /// As whom ``Proof/fetch(apiKey:appID:)`` asks, for an origin that serves only installations; nil for others.
    package var installation: FirebaseInstallation?
    /// How long the origin may take to catch up. Default 2 s; then the version is announced all the same.
    package var wait: Duration = .seconds(2)
    /// Between two probes. Default 50 ms; doubles up to 250 ms.
    package var interval: Duration = .milliseconds(50)

    package init(url: OutboundURL, proof: Proof) {
        self.url = url
        self.proof = proof
    }

    /// What in the answer shows the version.
    package enum Proof: Sendable {
        /// A GET; the integer at this place of its JSON.
        case pointer(JSONPointer)
        /// A GET; its `ETag`: the number it ends with, or where the origin has no numbers, the ETag the source saw.
        case etag
        /// A Firebase client's `:fetch`: `templateVersion` of the answer. The key goes into `X-Goog-Api-Key`
        /// unless it is empty.
        case fetch(apiKey: String, appID: String)
        /// A GET; the same content as the source saw, read in the same way. For origins without numbers.
        case content(ContentReading)
    }
}

/// What a fence has to see.
package struct FenceGoal: Sendable {
    /// At least this; nil when the origin has no numbers.
    package var version: VersionNumber?
    /// The ETag of the answer the version was read from.
    package var etag: String?
    package var content: OriginContent
    /// What clients may be answered until then; nil when that is not known.
    package var before: Template?

    package init(version: VersionNumber?, etag: String?, content: OriginContent, before: Template? = nil) {
        self.version = version
        self.etag = etag
        self.content = content
        self.before = before
    }
}

/// How waiting at a fence ended.
package enum FenceVerdict: Sendable, Hashable {
    /// The origin's public answer shows the version, or one that came after it; after this long.
    case passed(after: Duration)
    /// It does not, and the time is over. `problem` is what the last probe saw.
    case timeout(problem: String)
}
