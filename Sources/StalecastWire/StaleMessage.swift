/// One STALE notice for one topic, as JSON on an SSE `data:` line, in a long-poll answer, in a webhook.
package struct StaleMessage: Sendable, Hashable {
    package let topic: TopicName
    package let change: TemplateChange
    /// The version the receiver is known to hold, to which `changedKeys` refers; nil when unknown.
    package let since: VersionNumber?
    /// The union of changed parameter names since `since`; nil means "anything may have changed".
    package let changedKeys: [String]?
    /// Time over which clients are asked to spread their fetches, in milliseconds; 0 means fetch now.
    package let fetchWindowMs: Int
    /// Share of the clients that should report their progress; 1 is all, and is not said.
    package let reportRatio: Double

    /// More names than this are left out (`changedKeys` absent): the message must stay small.
    package static let maxChangedKeys = 64
    /// No message is longer than this, in bytes of JSON; `changedKeys` gives way first. FCM's payload limit.
    package static let maxBytes = 4096
    /// The part of ``maxBytes`` that `changedKeys` may take; topic, project and etag names fill the rest.
    private static let maxChangedKeyBytes = 2500

    package init(
        topic: TopicName, change: TemplateChange, since: VersionNumber?, changedKeys: [String]?, fetchWindowMs: Int = 0,
        reportRatio: Double = 1
    ) {
        (self.topic, self.change, self.since) = (topic, change, since)
        self.changedKeys = changedKeys.flatMap(Self.ifSmall)
        self.fetchWindowMs = fetchWindowMs
        self.reportRatio = reportRatio
    }

    private static func ifSmall(_ keys: [String]) -> [String]? {
        let bytes = keys.reduce(0) { $0 + $1.utf8.count + 3 }
        return keys.count <= maxChangedKeys && bytes <= maxChangedKeyBytes ? keys : nil
    }

    package var json: JSONValue {
        [
            "CONFIG_STATE": "STALE", "type": "refetchEvaluation",
            "topic": .string(topic.description), "project": .string(change.scope.project.description),
            "namespace": .string(change.scope.namespace.description),
            "latestTemplateVersionNumber": .string(String(change.version)),
            "sinceTemplateVersionNumber": since.map { .string(String($0)) }, "etag": .string(change.etag),
            "updateType": .string(change.metadata.updateType.rawValue),
            "updateOrigin": .string(change.metadata.updateOrigin.rawValue),
            "updateTime": .string(change.metadata.updateTime.description),
            "rollbackSource": change.metadata.rollbackSource.map { .string(String($0)) },
            "changedKeys": changedKeys.map { .array($0.map(JSONValue.string)) }, "fetchWindowMs": .int(fetchWindowMs),
            "reportRatio": reportRatio < 1 ? .double((reportRatio * 1e4).rounded(.up) / 1e4) : nil,
            "fence": change.notes.hasFenceTimedOut ? "timeout" : nil,
        ]
    }
}
