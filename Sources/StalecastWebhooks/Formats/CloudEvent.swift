import StalecastWire

/// An event of CloudEvents 1.0 in its two HTTP forms.
struct CloudEvent {
    let id: String
    let source: String
    let type: String
    let time: Timestamp
    /// Extension attributes, `[a-z0-9]{1,20}`, in order.
    let extensions: [(name: String, value: String)]
    let data: JSONValue

    /// Event type for which `onConfigUpdated` handlers are registered.
    static let firebaseType = "google.firebase.remoteconfig.remoteConfig.v1.updated"
    static let structuredContentType = "application/cloudevents+json"
    static let dataContentType = "application/json"

    /// Attributes as headers, `ce-id` and so on; the body is ``data``.
    var headers: [(name: String, value: String)] {
        let required = [
            ("ce-specversion", "1.0"), ("ce-id", id), ("ce-source", source), ("ce-type", type),
            ("ce-time", time.description),
        ]
        return required + extensions.map { ("ce-\($0.name)", $0.value) }
    }

    var binaryBody: [UInt8] { data.encoded() }

    var structuredBody: [UInt8] {
        var object: JSONObject = [
            "specversion": "1.0", "id": .string(id), "source": .string(source), "type": .string(type),
            "time": .string(time.description), "datacontenttype": .string(Self.dataContentType),
        ]
        for (name, value) in extensions { object[name] = .string(value) }
        object["data"] = data
        return JSONValue.object(object).encoded()
    }
}

extension CloudEvent {
    private static func source(_ project: ProjectID) -> String {
        "//firebaseremoteconfig.googleapis.com/projects/\(project)"
    }

    /// A new version, as Firebase tells it.
    init(_ content: Delivery.StaleContent, id: String) {
        let change = content.change
        var extensions = [("namespace", change.scope.namespace.description), ("topic", content.topic.description)]
        if let since = content.since { extensions.append(("sinceversion", String(since))) }
        extensions.append(("coalesced", String(content.coalesced)))
        self.init(
            id: id, source: Self.source(change.scope.project), type: Self.firebaseType,
            time: change.metadata.updateTime, extensions: extensions, data: Self.data(change.metadata))
    }

    /// A test: the newest version once more, marked with `test`, because handlers know no other event.
    init(test id: String, topic: TopicName, project: ProjectID, current: TemplateChange?, at now: Timestamp) {
        let metadata =
            current?.metadata
            ?? VersionMetadata(number: 0, updateTime: now, description: "test", updateType: .unspecified)
        self.init(
            id: id, source: Self.source(project), type: Self.firebaseType, time: now,
            extensions: [("topic", topic.description), ("test", "true")], data: Self.data(metadata))
    }

    init(_ event: Delivery.OperationalEvent, id: String) {
        self.init(
            id: id, source: Self.source(event.project), type: event.type, time: event.time, extensions: [],
            data: event.data)
    }

    init(challenge: String, id: String, project: ProjectID, at now: Timestamp) {
        self.init(
            id: id, source: Self.source(project), type: StandardMessage.challengeType, time: now, extensions: [],
            // The second member keeps a copy of the request from being an answer, see ``ConsentQuestion``.
            data: ["challenge": .string(challenge), "type": .string(StandardMessage.challengeType)])
    }

    /// Firebase's `RemoteConfigEventData`. Its Python SDK fails when one of the members is missing, empty or not, and on
    /// times without a fraction; numbers stay numbers for the functions' authors.
    private static func data(_ metadata: VersionMetadata) -> JSONValue {
        [
            "versionNumber": .int(metadata.number), "updateTime": .string(metadata.updateTime.description),
            "updateUser": [
                "name": .string(metadata.updateUser.name), "email": .string(metadata.updateUser.email),
                "imageUrl": .string(metadata.updateUser.imageURL),
            ],
            "description": .string(metadata.description),
            "updateOrigin": .string(metadata.updateOrigin.rawValue),
            "updateType": .string(metadata.updateType.rawValue),
            "rollbackSource": metadata.rollbackSource.map { .int($0) },
        ]
    }
}
