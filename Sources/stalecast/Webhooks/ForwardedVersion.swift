import StalecastHub
import StalecastWebhooks
package import StalecastWire

/// A version that a stream told of, as the message that a registered webhook of mode `latest` gets.
package struct ForwardedVersion: Sendable {
    /// The `webhook-id`: the one that registered webhooks get.
    package let id: String
    package let version: VersionNumber
    /// The version that the app took last; nil when the daemon does not know what came before.
    package private(set) var since: VersionNumber?
    private var message: JSONObject
    private let cursor: Cursor

    /// - Returns: nil for a message that is not about a version, such as one of `stalecast send`.
    package init?(_ data: String, cursor: String) {
        guard let cursor = Cursor(cursor), var message = JSONValue.ifValid(data.utf8)?.object,
            let version = message["latestTemplateVersionNumber"]?.string.flatMap(VersionNumber.init),
            // A name that breaks its rule is no version's.
            let project = message["project"]?.string.flatMap({ try? ProjectID($0) }),
            let namespace = message["namespace"]?.string.flatMap({ try? Namespace($0) })
        else { return nil }
        // Streams of apps spread their fetches; a webhook fetches now.
        (message["fetchWindowMs"], message["reportRatio"]) = (0, nil)
        id = MessageID.of(version, of: Scope(project: project, namespace: namespace), epoch: cursor.epoch)
        since = message["sinceTemplateVersionNumber"]?.string.flatMap(VersionNumber.init)
        (self.version, self.message, self.cursor) = (version, message, cursor)
    }

    /// The message that stands for `older` as well, which the app has not taken.
    package func covering(_ older: ForwardedVersion) -> ForwardedVersion {
        // Versions of another history, for example before a restore, are not counted together.
        guard older.cursor.epoch == cursor.epoch else { return self }
        var both = self
        both.since = older.since
        both.message["sinceTemplateVersionNumber"] = older.message["sinceTemplateVersionNumber"]
        both.message["changedKeys"] = older.keys.flatMap { before in
            let all = keys?.union(before) ?? []
            return keys == nil || all.count > StaleMessage.maxChangedKeys
                ? nil : .array(all.sorted().map(JSONValue.string))
        }
        return both
    }

    private var keys: Set<String>? { message["changedKeys"]?.array.map { Set($0.compactMap(\.string)) } }

    package var body: [UInt8] {
        let between = since.map { max(0, version.rawValue - $0.rawValue - 1) } ?? 0
        return StandardMessage.stale(message, cursor, since: since, coalesced: Int(between))
    }
}
