import StalecastAccess
import StalecastHTTP
import StalecastWire

extension ControlOperations {
    /// Topics and messages.
    static let serving: [ControlOperation] = [
        operation(
            "listTopics", "GET", "/v1/projects/{project}/topics", tag: "Topics",
            summary: "The topics bound to a scope of the project, with their subscribers",
            answers: [.json("The topics", .schema("Topics"))], .call(Call.listTopics)),
        operation(
            "listMessages", "GET", "/v1/projects/{project}/messages", tag: "Topics",
            summary: "Who sent messages to whom, newest first; the last 300, without their values",
            parameters: [
                pageSize("At most 300, which is all there are.")
            ], answers: [.json("The messages", .schema("Messages"))], .call(Call.listMessages)),
        operation(
            "sendMessage", "POST", "/v1/projects/{project}/messages:send", tag: "Topics",
            summary: "Sends data to the current subscribers of a topic, in the form of FCM's HTTP v1 API",
            parameters: [.flag("validateOnly", "Check, do not send.")], body: APIBody(.schema("SendRequest")),
            answers: [.json("Sent", .schema("SentMessage"))], errors: [400, 404, 504], action: .publish,
            .call(Call.sendMessage)),
    ]

    static let servingSchemas: JSONObject = [
        "Topics": .recordSchema([
            "topics": .listSchema(
                .recordSchema(
                    [
                        "name": text, "scopes": .listSchema(text), "keys": .listSchema(text),
                        "subscribers": ["type": "object", "additionalProperties": integer],
                    ], optional: ["keys"]))
        ]),
        "SendRequest": .objectSchema(
            [
                "validateOnly": ["type": ["boolean", "null"]],
                "message": .objectSchema(
                    [
                        "topic": ["type": ["string", "null"], "examples": ["PUSH_RC"]],
                        "condition": ["type": ["string", "null"], "examples": ["'PUSH_RC' in topics"]],
                        "data": [
                            "type": "object", "minProperties": 1, "additionalProperties": text,
                            "examples": [["CONFIG_STATE": "STALE"]],
                        ],
                    ], required: ["data"]),
            ], required: ["message"]),
        "Messages": .recordSchema([
            "messages": .listSchema(
                .recordSchema([
                    "name, target": text, "time": moment, "keys": .listSchema(text),
                    "sender": .objectSchema(["principal, name, email": text], required: ["principal"]),
                ]))
        ]),
        "SentMessage": .recordSchema(["name": text]),
    ]
}
