package import StalecastRecords
package import StalecastStore
package import StalecastWire

/// One version in the shared log, or one step of the release of a version, complete: a node needs nothing else to have
/// it.
package struct LogEntry: Sendable, Hashable {
    /// Scope, sequence, metadata, ETag, changed keys, notes. Of a step those of the version that is released.
    package let change: TemplateChange
    /// Releases of the scope that it changes, as they are afterwards, oldest first. Every node takes them as they stand
    /// here: no two can disagree.
    package let releases: [Release]
    package let publish: PublishID
    /// Head that the entry was made for; the log accepts it after no other.
    package let previous: LogHead
    /// Node that proposed it.
    package let node: String
    /// Milliseconds over which clients of all nodes spread their fetches; the proposer knows how many there are.
    package let fetchWindowMs: Int64
    package let content: Content

    /// The template's JSON as the store keeps it.
    package enum Content: Sendable, Hashable {
        case inline([UInt8])
        /// Too long for the line: kept beside it, under its digest.
        case beside(ContentKey)
        /// A step of a release brings no version.
        case absent
    }

    package init(
        change: TemplateChange, releases: [Release] = [], publish: PublishID, after previous: LogHead, node: String,
        fetchWindowMs: Int64 = 0, content: Content
    ) {
        precondition(change.sequence == previous.sequence + 1, "an entry follows its head")
        (self.change, self.releases, self.publish, self.previous) = (change, releases, publish, previous)
        (self.node, self.fetchWindowMs, self.content) = (node, fetchWindowMs, content)
    }

    package var sequence: CommitSequence { change.sequence }
}

/// A content that is kept outside its entry.
package struct ContentKey: Sendable, Hashable {
    /// SHA-256 of the content, 64 hexadecimal digits in lower case.
    package let digest: String
    /// Bytes of the content.
    package let size: Int
    /// Pieces its packed bytes are cut into; at least 1.
    package let chunks: Int
}

extension LogHead {
    package init(of entry: LogEntry) { self.init(entry.sequence, entry.publish) }
}
