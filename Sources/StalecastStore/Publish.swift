package import StalecastTemplate
package import StalecastWire

/// A validated template that wants to become its scope's next version.
package struct Publish: Sendable {
    package var scope: Scope
    package var template: Template
    package var precondition: Precondition
    /// Empty when none was given.
    package var description: String
    package var user: UpdateUser
    package var origin: UpdateOrigin
    /// nil, the default, takes what the precondition implies: an ETag is incremental, `*` is forced.
    package var updateType: UpdateType?
    /// Clients are to fetch at once. Default false.
    package var isUrgent: Bool
    /// Key by which a repeated publish is recognised, where several stores share an order; nil, the default: none.
    package var idempotencyKey: String?
    /// Releases the version in stages; nil, the default, tells all clients at once.
    package var staged: Staged?
    /// Takes the place of a release that is open. Default false.
    package var supersedes = false
    /// Principal as in the audit log, and why, for the log of a release that it ends; nil: the user's address, and no reason.
    package var author: String?
    package var reason: String?

    /// Way in which a version is released, and its author.
    package struct Staged: Sendable {
        package let policy: ReleasePolicy
        package let by: String

        package init(_ policy: ReleasePolicy, by: String) {
            self.policy = policy
            self.by = by
        }
    }

    package init(
        scope: Scope, template: Template, precondition: Precondition, description: String = "",
        user: UpdateUser = UpdateUser(), origin: UpdateOrigin = .restAPI, updateType: UpdateType? = nil,
        isUrgent: Bool = false
    ) {
        (self.scope, self.template, self.precondition, self.description) = (scope, template, precondition, description)
        (self.user, self.origin, self.updateType, self.isUrgent) = (user, origin, updateType, isUrgent)
    }

    /// Condition on the current version: the meaning of `If-Match`.
    package enum Precondition: Sendable, Hashable {
        /// `If-Match: *`
        case any
        /// The current version's ETag, unquoted; `etag-<number>-0` while there is no version.
        case etag(String)

        /// The update type a publish with this precondition gets.
        package var updateType: UpdateType { if case .any = self { .forced } else { .incremental } }
    }
}

/// The ETag's one spelling, `etag-<project number>-<version>`.
package enum TemplateETag {
    /// Version 0 is an empty scope, and what a successful validation answers with.
    package static func of(project number: UInt64, version: VersionNumber) -> String { "etag-\(number)-\(version)" }

    /// The version in an ETag of our spelling, else nil.
    package static func version(in etag: String) -> VersionNumber? {
        let parts = etag.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "etag", UInt64(parts[1]) != nil else { return nil }
        return VersionNumber(parts[2])
    }
}
