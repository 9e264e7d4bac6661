import StalecastWire

/// Bodies of format `fcm`: FCM HTTP v1 `messages:send`.
enum FCMMessage {
    static let contentType = "application/json; charset=utf-8"
    /// OAuth scope of the tokens.
    static let scope = "https://www.googleapis.com/auth/firebase.messaging"

    /// Exactly what Firebase's guide sends when a template changes.
    static func stale(_ topic: TopicName) -> [UInt8] { JSONValue.object(["message": message(topic)]).encoded() }

    /// FCM checks it and the credentials, and sends nothing.
    static func test(_ topic: TopicName) -> [UInt8] {
        JSONValue.object(["message": message(topic), "validate_only": true]).encoded()
    }

    private static func message(_ topic: TopicName) -> JSONValue {
        ["topic": .string(topic.description), "data": ["CONFIG_STATE": "STALE"]]
    }
}
