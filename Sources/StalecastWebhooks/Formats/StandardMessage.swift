import StalecastHub
package import StalecastWire

/// Bodies of format `standard`: `{"type":…,"timestamp":…,"data":{…}}`, as Standard Webhooks recommends.
package enum StandardMessage {
    /// Type of the message about a new version.
    static let staleType = "config.stale"
    static let testType = "webhook.test"
    static let challengeType = "webhook.verification"

    package static let contentType = "application/json"

    /// `data` is the message every other subscriber gets, and as numbers: its version, the version acknowledged last,
    /// and how many versions in between were folded into this message.
    static func stale(_ content: Delivery.StaleContent, epoch: Epoch) -> [UInt8] {
        let message = StaleMessage(
            topic: content.topic, change: content.change, since: content.since, changedKeys: content.changedKeys)
        return stale(
            message.json.object ?? JSONObject(), Cursor(epoch: epoch, sequence: content.change.sequence),
            since: content.since, coalesced: content.coalesced)
    }

    /// Body about a version.
    ///
    /// - Parameters:
    ///   - message: what every other subscriber gets.
    ///   - since: version acknowledged last; nil without one.
    ///   - coalesced: number of versions in between, which this message stands for as well.
    package static func stale(
        _ message: JSONObject, _ cursor: Cursor, since: VersionNumber?, coalesced: Int
    ) -> [UInt8] {
        var data = message
        data["cursor"] = .string(cursor.description)
        data["version"] = data["latestTemplateVersionNumber"]?.int64.map { .int($0) }
        data["sinceVersion"] = since.map { .int($0) } ?? .null
        data["coalesced"] = .int(coalesced)
        return body(staleType, data["updateTime"] ?? .null, .object(data))
    }

    static func test(topic: TopicName, project: ProjectID, current: TemplateChange?, at now: Timestamp) -> [UInt8] {
        var data: JSONObject = ["project": .string(project.description), "topic": .string(topic.description)]
        data["version"] = current.map { .int($0.version) } ?? .null
        return body(testType, time(now), .object(data))
    }

    static func operational(_ event: Delivery.OperationalEvent) -> [UInt8] {
        body(event.type, time(event.time), event.data)
    }

    static func challenge(_ text: String, at now: Timestamp) -> [UInt8] {
        body(challengeType, time(now), ["challenge": .string(text)])
    }

    private static func time(_ time: Timestamp) -> JSONValue { .string(time.description) }

    private static func body(_ type: String, _ time: JSONValue, _ data: JSONValue) -> [UInt8] {
        JSONValue.object(["type": .string(type), "timestamp": time, "data": data]).encoded()
    }
}
