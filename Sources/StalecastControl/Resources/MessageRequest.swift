import StalecastHTTP
import StalecastHub
import StalecastWire

/// The body of FCM's `messages:send`, as far as it means something here: a target and data. Members for platforms
/// (`android`, `apns`, `webpush`, `fcmOptions`) and `notification` are accepted and have no effect.
struct MessageRequest: Sendable {
    let target: DataMessage.Target
    let data: JSONObject
    let validateOnly: Bool

    /// FCM's limit, in bytes of the data as it goes over the wire.
    static let maxPayloadBytes = StaleMessage.maxBytes

    /// - Throws: 400 with FCM's details.
    init(_ body: [UInt8]) throws(GoogleError) {
        let json: JSONValue
        do { json = try JSONBody.parse(body) } catch {
            throw error.with(detail: Self.fcmDetail("INVALID_ARGUMENT"))
        }
        guard let message = json["message"]?.object else {
            throw Self.refusal("message", "The body needs a member \"message\", an object.")
        }
        validateOnly = try Self.flag(json["validateOnly"] ?? json["validate_only"])
        target = try Self.target(message)
        data = try Self.data(message["data"])
    }

    private static func flag(_ value: JSONValue?) throws(GoogleError) -> Bool {
        guard let value, !value.isNull else { return false }
        guard let flag = value.bool else { throw refusal("validate_only", "validate_only must be true or false.") }
        return flag
    }

    private static func target(_ message: JSONObject) throws(GoogleError) -> DataMessage.Target {
        for name in ["token", "fid"] where message[name].map({ !$0.isNull }) ?? false {
            throw refusal(
                "message.\(name)", "This server knows topics, not devices: use message.topic or message.condition.")
        }
        let topic = try text("topic", message)
        let condition = try text("condition", message)
        switch (topic, condition) {
        case (let topic?, nil): return .topic(try topicName(topic))
        case (nil, let condition?): return .condition(try topicCondition(condition))
        case (nil, nil): throw refusal("message", "The message needs a target: message.topic or message.condition.")
        case (.some, .some):
            throw refusal("message", "The message has two targets; give topic or condition, not both.")
        }
    }

    private static func text(_ name: String, _ message: JSONObject) throws(GoogleError) -> String? {
        guard let value = message[name], !value.isNull else { return nil }
        guard let text = value.string else { throw refusal("message.\(name)", "message.\(name) must be a string.") }
        return text
    }

    private static func topicName(_ text: String) throws(GoogleError) -> TopicName {
        let bare = text.hasPrefix("/topics/") ? String(text.dropFirst("/topics/".count)) : text
        do { return try TopicName(bare) } catch {
            throw refusal("message.topic", "Malformed topic name: \(error.description).")
        }
    }

    private static func topicCondition(_ text: String) throws(GoogleError) -> TopicCondition {
        do { return try TopicCondition(parsing: text) } catch {
            throw refusal("message.condition", "Invalid condition expression: \(error.description).")
        }
    }

    private static func data(_ value: JSONValue?) throws(GoogleError) -> JSONObject {
        guard let value, !value.isNull, let data = value.object, !data.isEmpty else {
            throw refusal("message.data", "message.data must be an object that is not empty: only data is sent here.")
        }
        for (key, value) in data.members { try check(key, value) }
        let size = JSONValue.object(data).encoded(.wire).count
        guard size <= maxPayloadBytes else {
            throw refusal("message.data", "Message too big: \(size) bytes of data, \(maxPayloadBytes) are allowed.")
        }
        return data
    }

    private static func check(_ key: String, _ value: JSONValue) throws(GoogleError) {
        if ["", "from", "message_type"].contains(key) || key.hasPrefix("google") || key.hasPrefix("gcm") {
            throw refusal("message.data", "Invalid data payload key: \(key.prefix(80))")
        }
        guard value.string != nil else {
            throw refusal("message.data[\(key.prefix(80))]", "Data values must be strings; this one is \(value.kind).")
        }
    }

    private static func refusal(_ field: String, _ message: String) -> GoogleError {
        GoogleError.invalidField(field, message).with(detail: fcmDetail("INVALID_ARGUMENT"))
    }

    /// FCM's own detail: what its SDKs turn into exceptions.
    static func fcmDetail(_ code: String) -> JSONValue {
        ["@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": .string(code)]
    }
}
