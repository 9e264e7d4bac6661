package import StalecastTemplate
package import StalecastWire

/// A template that was seen at an origin and wants to become its scope's next version here.
package struct Adoption: Sendable {
    package var scope: Scope
    package var template: Template
    /// The origin's own number; nil where it has none, and then the next one here is taken.
    package var number: VersionNumber?
    /// Metadata of the version at its origin: author, time and reason; its number means nothing here. nil where the
    /// origin says nothing.
    package var metadata: VersionMetadata?
    package var notes: ChangeNotes
    /// Ownership that entitles this node of a cluster to publish it; nil: none is asked for.
    package var ownership: Ownership?

    package init(
        scope: Scope, template: Template, number: VersionNumber? = nil, metadata: VersionMetadata? = nil,
        notes: ChangeNotes = ChangeNotes()
    ) {
        (self.scope, self.template, self.number, self.metadata, self.notes) = (scope, template, number, metadata, notes)
    }

    /// Relation of a scope's current version to the content that was seen.
    package enum Relation: Sendable, Hashable {
        case isNew
        /// The current version is what was seen.
        case isCurrent
        /// The origin's number is lower than the current one's.
        case isOlder(than: VersionNumber)
        /// The origin's number is the current one's, and the content is not.
        case contradicts
    }

    /// Content is compared byte by byte, as clients see it: Swift's strings take a composed and a decomposed letter for
    /// the same.
    ///
    /// - Parameter current: nil while the scope has no version.
    package func relation(to current: StoredVersion?) -> Relation {
        guard let current else { return .isNew }
        let isSame = current.template.json.encoded() == template.json.encoded()
        guard let number else { return isSame ? .isCurrent : .isNew }
        if number < current.version { return .isOlder(than: current.version) }
        if number > current.version { return .isNew }
        return isSame ? .isCurrent : .contradicts
    }

    /// - Parameter floor: a number of ours is above it; the origin's own are the origin's.
    /// - Throws: ``StoreError/versionMismatch(expected:found:)`` for a number that is not higher than the current one.
    func metadata(
        after current: VersionNumber, floor: VersionNumber, now: Timestamp
    ) throws(StoreError) -> VersionMetadata {
        guard let number = self.number ?? max(current, floor).next else { throw .numbersExhausted(scope) }
        guard number > current else { throw .versionMismatch(expected: number, found: current) }
        var metadata =
            metadata
            ?? VersionMetadata(
                number: number, updateTime: now, description: template.requestedDescription,
                updateOrigin: .unspecified, updateType: .unspecified)
        metadata.number = number
        return metadata
    }
}

/// Work that one node of a cluster does at a time, and the number under which this one took it: a node that has another
/// number does not do it any more.
package struct Ownership: Sendable, Hashable {
    package let assignment: String
    package let token: Int64

    package init(assignment: String, token: Int64) {
        self.assignment = assignment
        self.token = token
    }
}
