import StalecastWire

extension ControlResponder {
    /// `POST messages:send` in the shape of FCM's HTTP v1 API.
    func sendMessage(
        _ project: ProjectID, _ body: [UInt8], _ query: QueryParameters
    ) async throws(GoogleError) -> Answer {
        let request = try MessageRequest(body)
        try checkTopics(request.target)
        let validatesOnly = try query.flag("validateOnly")
        if request.validateOnly || validatesOnly { return Self.sent(project, "fake_message_id") }
        await dependencies.send(SentMessage(target: request.target, data: request.data))
        return Self.sent(project, Self.messageID())
    }

    private func checkTopics(_ target: SentMessage.Target) throws(GoogleError) {
        let wanted: [TopicName] =
            switch target {
            case .topic(let name): [name]
            case .condition(let condition): condition.topics
            }
        let known = dependencies.topics().map(\.name)
        guard let missing = wanted.first(where: { !known.contains($0) }) else { return }
        let names = known.map(\.description).joined(separator: ", ")
        throw GoogleError.notFound("Requested entity was not found: no topic \(missing) here. Known topics: \(names).")
            .with(detail: MessageRequest.fcmDetail("UNREGISTERED"))
    }

    private static func sent(_ project: ProjectID, _ id: String) -> Answer {
        Answer(["name": .string("projects/\(project)/messages/\(id)")])
    }

    /// As FCM's: decimal, growing with time. The random tail keeps two in one microsecond apart.
    private static func messageID() -> String {
        "\(Timestamp.now().microseconds)\(Int.random(in: 100...999))"
    }
}
