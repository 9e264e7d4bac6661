import StalecastHub
import StalecastWire

/// Bodies of format `standard`: `{"type":…,"timestamp":…,"data":{…}}`, as Standard Webhooks recommends.
enum StandardMessage {
    /// Type of the message about a new version.
    static let staleType = "config.stale"
    static let testType = "webhook.test"
    static let challengeType = "webhook.verification"

    static let contentType = "application/json"

    /// `data` is the message every other subscriber gets, and as numbers: its version, the version acknowledged last,
    /// and how many versions in between were folded into this message.
    static func stale(_ content: Delivery.StaleContent, epoch: Epoch) -> [UInt8] {
        let message = StaleMessage(
            topic: content.topic, change: content.change, since: content.since, changedKeys: content.changedKeys)
        var data = message.json.object ?? JSONObject()
        data["cursor"] = .string(Cursor(epoch: epoch, sequence: content.change.sequence).description)
        data["version"] = .int(content.change.version)
        data["sinceVersion"] = content.since.map { .int($0) } ?? .null
        data["coalesced"] = .int(content.coalesced)
        return body(staleType, content.change.metadata.updateTime, .object(data))
    }

    static func test(topic: TopicName, project: ProjectID, current: TemplateChange?, at now: Timestamp) -> [UInt8] {
        var data: JSONObject = ["project": .string(project.description), "topic": .string(topic.description)]
        data["version"] = current.map { .int($0.version) } ?? .null
        return body(testType, now, .object(data))
    }

    static func operational(_ event: Delivery.OperationalEvent) -> [UInt8] { body(event.type, event.time, event.data) }

    static func challenge(_ text: String, at now: Timestamp) -> [UInt8] {
        body(challengeType, now, ["challenge": .string(text)])
    }

    private static func body(_ type: String, _ time: Timestamp, _ data: JSONValue) -> [UInt8] {
        JSONValue.object(["type": .string(type), "timestamp": .string(time.description), "data": data]).encoded()
    }
}
