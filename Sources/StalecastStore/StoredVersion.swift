package import StalecastTemplate
package import StalecastWire

/// A committed version with its content.
package struct StoredVersion: Sendable, Hashable {
    /// Scope, sequence, metadata, ETag, changed keys.
    package let change: TemplateChange
    package let template: Template
    /// `template.json` as UTF-8 on one line, as it was committed: without `version` and `etag`.
    package let content: [UInt8]
    /// Form of ``template`` for fetches, made before the commit; nil for a server template, and for a version that was
    /// read from the database.
    package var ready: ReadyTemplate?

    package init(change: TemplateChange, template: Template, content: [UInt8], ready: ReadyTemplate? = nil) {
        (self.change, self.template, self.content, self.ready) = (change, template, content, ready)
    }

    package static func == (a: Self, b: Self) -> Bool { a.change == b.change && a.content == b.content }
    package func hash(into hasher: inout Hasher) { hasher.combine(change) }

    package var metadata: VersionMetadata { change.metadata }
    package var etag: String { change.etag }
    package var scope: Scope { change.scope }
    package var version: VersionNumber { change.metadata.number }
}

extension ReadyTemplate {
    /// nil for a server template: most daemons do not serve those to clients.
    static func made(of template: Template, in scope: Scope) -> ReadyTemplate? {
        TemplateKind(namespace: scope.namespace) == .client ? ReadyTemplate(template, kind: .client) : nil
    }
}

/// Versions that ``TemplateStore/versions(of:_:)`` lists. The default is the newest ten.
package struct VersionQuery: Sendable, Hashable {
    /// 1 to 300; values outside are brought in. Default 10.
    package var pageSize = 10
    /// The page token: nothing newer than this; nil starts at the newest.
    package var startingAt: VersionNumber?
    /// Nothing newer than this, inclusive.
    package var endVersion: VersionNumber?
    /// Nothing updated before this moment, inclusive.
    package var startTime: Timestamp?
    /// Nothing updated at or after this moment.
    package var endTime: Timestamp?

    package init(
        pageSize: Int = 10, startingAt: VersionNumber? = nil, endVersion: VersionNumber? = nil,
        startTime: Timestamp? = nil, endTime: Timestamp? = nil
    ) {
        (self.pageSize, self.startingAt, self.endVersion) = (pageSize, startingAt, endVersion)
        (self.startTime, self.endTime) = (startTime, endTime)
    }

    /// One page of a scope's versions, newest first, without content.
    package struct Page: Sendable, Hashable {
        package let versions: [VersionMetadata]
        /// The version the next page starts at; nil on the last page.
        package let next: VersionNumber?

        package init(versions: [VersionMetadata], next: VersionNumber?) {
            self.versions = versions
            self.next = next
        }
    }
}
