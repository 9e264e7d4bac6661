/// One STALE message as a client receives it: the configuration it holds for a scope is out of date.
public struct StaleNotice: Sendable, Hashable {
    /// The topic it came over, for example `PUSH_RC`; empty when the transport has none (Firebase's own stream).
    public var topic: String
    /// The project; nil when the message does not say.
    public var project: String?
    /// The namespace; nil when the message does not say.
    public var namespace: String?
    /// The newest version of the scope. 0 when the message does not say.
    public var version: Int64
    /// The version this subscriber was known to hold; nil when unknown.
    public var sinceVersion: Int64?
    /// Parameters that may have changed since `sinceVersion`; nil means anything may have changed.
    public var changedKeys: [String]?
    /// The template's ETag; nil when the message does not say.
    public var etag: String?
    /// Firebase's name of how the version came to be, for example `ROLLBACK`; nil when the message does not say.
    public var updateType: String?
    /// Milliseconds over which clients are asked to spread their fetches; 0 is at once.
    public var fetchWindowMs: Int
    /// True when the publisher asked that no client waits: the window is then to be ignored.
    public var isUrgent: Bool
    /// The place to resume from once this is remembered, to be stored by the owner; nil when the transport has none.
    public var cursor: String?
    /// The message's members as strings, as a Firebase push message carries them: `["CONFIG_STATE": "STALE", …]`.
    public var data: [String: String]

    /// A notice of `version`; what is left out is as a plain STALE message without details has it.
    public init(
        topic: String = "PUSH_RC", project: String? = nil, namespace: String? = nil, version: Int64,
        sinceVersion: Int64? = nil, changedKeys: [String]? = nil, etag: String? = nil, updateType: String? = nil,
        fetchWindowMs: Int = 0, isUrgent: Bool = false, cursor: String? = nil,
        data: [String: String] = ["CONFIG_STATE": "STALE"]
    ) {
        (self.topic, self.project, self.namespace) = (topic, project, namespace)
        (self.version, self.sinceVersion, self.changedKeys) = (version, sinceVersion, changedKeys)
        (self.etag, self.updateType, self.fetchWindowMs) = (etag, updateType, fetchWindowMs)
        (self.isUrgent, self.cursor, self.data) = (isUrgent, cursor, data)
    }
}
