import StalecastHub
import StalecastWire
import Testing

@Suite("messages:send", .timeLimit(.minutes(5)))
struct MessageAPITests {
    private let path = "/v1/projects/demo/messages:send"

    private func send(_ server: ControlFixture, _ body: String) async throws -> HTTPReply {
        try await server.send("POST", path, body: Array(body.utf8))
    }

    @Test(arguments: ["PUSH_RC", "/topics/PUSH_RC"])
    func dataToATopicIsHandedOnExactly(topic: String) async throws {
        try await ControlFixture.serving { server async throws in
            let body =
                #"{"message":{"topic":"\#(topic)","data":{"CONFIG_STATE":"STALE"},"android":{"priority":"HIGH"}}}"#
            let reply = try await send(server, body)
            #expect(reply.status == 200)
            #expect(try reply.json["name"]?.string?.hasPrefix("projects/demo/messages/") == true)
            #expect(server.sent.all.map { "\($0.target)" } == ["\(DataMessage.Target.topic(.pushRC))"])
            #expect(server.sent.all.map(\.json) == [Array(#"{"CONFIG_STATE":"STALE"}"#.utf8)])
        }
    }

    @Test func aConditionIsHandedOn() async throws {
        try await ControlFixture.serving { server async throws in
            let condition = "'PUSH_RC' in topics && !('payments' in topics)"
            let reply = try await send(server, #"{"message":{"condition":"\#(condition)","data":{"a":"b"}}}"#)
            #expect(reply.status == 200)
            let target = DataMessage.Target.condition(try TopicCondition(parsing: condition))
            #expect(server.sent.all.map { "\($0.target)" } == ["\(target)"])
        }
    }

    @Test(arguments: ["validateOnly", "validate_only"])
    func validateOnlySendsNothing(name: String) async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await send(server, #"{"message":{"topic":"PUSH_RC","data":{"a":"b"}},"\#(name)":true}"#)
            #expect(try reply.json["name"]?.string == "projects/demo/messages/fake_message_id")
            #expect(server.sent.all.isEmpty)
        }
    }

    @Test(arguments: [
        #"{}"#, #"{"message":{}}"#, #"{"message":{"topic":"PUSH_RC"}}"#, #"{"message":{"token":"x","data":{"a":"b"}}}"#,
        #"{"message":{"topic":"PUSH_RC","condition":"'a' in topics","data":{"a":"b"}}}"#,
        #"{"message":{"topic":"PUSH_RC","data":{"a":1}}}"#, #"{"message":{"topic":"PUSH_RC","data":{"from":"x"}}}"#,
        #"{"message":{"topic":"PUSH_RC","data":{"google.x":"x"}}}"#, #"{"message":{"topic":"a b","data":{"a":"b"}}}"#,
        #"{"message":{"condition":"'a' in","data":{"a":"b"}}}"#, "[",
        #"{"message":{"topic":"PUSH_RC","data":{"a":"\#(String(repeating: "x", count: 4096))"}}}"#,
    ])
    func wrongMessagesAreRefusedWithFCMsDetail(body: String) async throws {
        try await ControlFixture.serving { server async throws in
            let reply = try await send(server, body)
            #expect(reply.status == 400)
            let details = try reply.json["error"]?["details"]?.array ?? []
            #expect(details.contains { $0["errorCode"]?.string == "INVALID_ARGUMENT" })
            #expect(server.sent.all.isEmpty)
        }
    }

    /// FCM accepts each well-formed topic, and senders drop a token after "not found".
    @Test func anUndeclaredTopicHasNoSubscribersAndIsNoError() async throws {
        try await ControlFixture.serving { server async throws in
            for target in [#""topic":"nope""#, #""condition":"'PUSH_RC' in topics && !('nope' in topics)""#] {
                let reply = try await send(server, #"{"message":{\#(target),"data":{"a":"b"}}}"#)
                #expect(reply.status == 200)
            }
            #expect(server.sent.all.map(\.project) == [.demo, .demo])
        }
    }
}
