/// Origin of a version's content; raw values are Firebase's.
package enum UpdateType: String, Sendable, Hashable, CaseIterable {
    case unspecified = "REMOTE_CONFIG_UPDATE_TYPE_UNSPECIFIED"
    case incremental = "INCREMENTAL_UPDATE"
    case forced = "FORCED_UPDATE"
    case rollback = "ROLLBACK"
}

/// Maker of a version; raw values are Firebase's, the only ones its Cloud Functions SDK accepts.
package enum UpdateOrigin: String, Sendable, Hashable, CaseIterable {
    case unspecified = "REMOTE_CONFIG_UPDATE_ORIGIN_UNSPECIFIED"
    case console = "CONSOLE"
    case restAPI = "REST_API"
    case adminSDKNode = "ADMIN_SDK_NODE"
}

/// The person or account behind a version; empty members are left out on the wire.
package struct UpdateUser: Sendable, Hashable {
    package var name: String
    package var email: String
    package var imageURL: String

    package init(name: String = "", email: String = "", imageURL: String = "") {
        (self.name, self.email, self.imageURL) = (name, email, imageURL)
    }

    /// `{"name","email","imageUrl"}` without the empty ones; nil when all are empty.
    package var json: JSONValue? {
        let object: JSONObject = [
            "name": name.isEmpty ? nil : .string(name), "email": email.isEmpty ? nil : .string(email),
            "imageUrl": imageURL.isEmpty ? nil : .string(imageURL),
        ]
        return object.isEmpty ? nil : .object(object)
    }

    package init(json: JSONValue?) {
        self.init(
            name: json?["name"]?.string ?? "", email: json?["email"]?.string ?? "",
            imageURL: json?["imageUrl"]?.string ?? "")
    }
}

/// Firebase's `version` object: everything about a version but its content.
package struct VersionMetadata: Sendable, Hashable {
    package var number: VersionNumber
    package var updateTime: Timestamp
    package var updateUser: UpdateUser
    /// Empty when none was given.
    package var description: String
    package var updateOrigin: UpdateOrigin
    package var updateType: UpdateType
    /// The version whose content was taken; only for ``UpdateType/rollback``.
    package var rollbackSource: VersionNumber?

    package init(
        number: VersionNumber, updateTime: Timestamp, updateUser: UpdateUser = UpdateUser(), description: String = "",
        updateOrigin: UpdateOrigin = .restAPI, updateType: UpdateType = .incremental,
        rollbackSource: VersionNumber? = nil
    ) {
        (self.number, self.updateTime, self.updateUser) = (number, updateTime, updateUser)
        (self.description, self.updateOrigin, self.updateType) = (description, updateOrigin, updateType)
        self.rollbackSource = rollbackSource
    }

    /// The member `version` of a template: 64-bit numbers as strings, empty members left out.
    package var json: JSONValue {
        [
            "versionNumber": .string(String(number)), "updateTime": .string(updateTime.description),
            "updateUser": updateUser.json, "description": description.isEmpty ? nil : .string(description),
            "updateOrigin": .string(updateOrigin.rawValue), "updateType": .string(updateType.rawValue),
            "rollbackSource": rollbackSource.map { .string(String($0)) },
        ]
    }
}

/// A committed version as the rest of the daemon hears of it: what a message is made from.
package struct TemplateChange: Sendable, Hashable {
    package let scope: Scope
    package let sequence: CommitSequence
    package let metadata: VersionMetadata
    /// Tag as on the wire, unquoted: `etag-<project number>-<version>`.
    package let etag: String
    /// Names of the parameters whose outcome may differ from the version before, sorted; nil when unknown.
    package let changedKeys: [String]?
    /// Notes for its announcement. Not stored: after a restart it has none.
    package var notes: ChangeNotes

    package init(
        scope: Scope, sequence: CommitSequence, metadata: VersionMetadata, etag: String, changedKeys: [String]?,
        notes: ChangeNotes = ChangeNotes()
    ) {
        (self.scope, self.sequence, self.metadata) = (scope, sequence, metadata)
        (self.etag, self.changedKeys, self.notes) = (etag, changedKeys, notes)
    }

    package var version: VersionNumber { metadata.number }

    /// Change as a later commit told it.
    package func at(_ sequence: CommitSequence) -> TemplateChange {
        TemplateChange(
            scope: scope, sequence: sequence, metadata: metadata, etag: etag, changedKeys: changedKeys, notes: notes)
    }

    /// Change for a reader that was never told of the version before it: its keys are those of both.
    package func over(_ untold: TemplateChange) -> TemplateChange {
        let keys = changedKeys.flatMap { own in untold.changedKeys.map { Set($0).union(own).sorted() } }
        return TemplateChange(
            scope: scope, sequence: sequence, metadata: metadata, etag: etag, changedKeys: keys, notes: notes)
    }
}

/// Notes about a version that its announcement carries, beyond the version itself.
package struct ChangeNotes: Sendable, Hashable {
    /// Clients are to fetch at once, whatever the herd window of the scope.
    package var isUrgent: Bool
    /// The origin's public answer did not show the version in time: a fetch from it may bring an older one.
    package var hasFenceTimedOut: Bool
    /// Least time over which the clients of all nodes of a cluster spread their fetches, in milliseconds: a node may ask
    /// its own for more. nil: the node that announces it chooses.
    package var fetchWindowMs: Int?

    package init(isUrgent: Bool = false, hasFenceTimedOut: Bool = false) {
        self.isUrgent = isUrgent
        self.hasFenceTimedOut = hasFenceTimedOut
    }

    /// Marker in a description that makes a publish urgent, for clients that can set nothing else.
    package static let urgentMarker = "[urgent]"
}
